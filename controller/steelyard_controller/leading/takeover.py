"""What a controller that begins to lead holds for declared, and what the store must be told of it.

Pure. Usually the store is right, since whoever led last kept every change in
it. But a controller that led last itself, and lost the lease only because the
store was away, wiped, or put back to an older copy, knows better than the
store. Then the file is applied to that, as `declaration.with_file` has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from steelyard_controller.declared.declaration import Declaration, mistakes, with_file
from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.state.store import Declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What is declared now, how the store must change, and what the file said that cannot be."""

    declarations: Mapping[str, Declaration]
    changes: Mapping[str, Declaration | None]
    refused: Mapping[str, str]


def takeover(
    stored: Declared, own: Mapping[str, Declaration] | None, file: Mapping[str, Upstream]
) -> Takeover:
    """Return what holds; `own` is what the caller declared, where it led last, else None.

    What is damaged in the store is not written over: a person may want to mend it.
    """
    now = dict(stored.known if own is None else own)
    refused = {}
    for name, section in file.items():
        try:
            applied = with_file(now.get(name), section)
        except ValidationError as error:
            refused[name] = f"it does not go with what was set over REST, and is left out: {mistakes(error)}"
            continue
        if applied is not None:
            now[name] = applied
    changes: dict[str, Declaration | None] = {name: None for name in stored.known if name not in now}
    for name, declared in now.items():
        if name not in stored.damaged and stored.known.get(name) != declared:
            changes[name] = declared
    for name in stored.damaged & set(now):
        refused[name] = "its declaration in the store is damaged; the file's stands until a change over REST"
    return Takeover(declarations=now, changes=changes, refused=refused)
