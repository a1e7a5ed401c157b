"""The plan of a takeover: which declarations hold for a new leader, and what must change in the store.

Pure. Usually the store is right, since the leader before stored every change.
But a controller that led last itself, and lost the lease only because the store
was away, wiped, or restored from an older copy, knows better than the store.
Then the file is applied to these declarations by `declaration.with_file`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from steelyard_controller.declarations.declaration import Declaration, mistakes, with_file
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.store.interface import StoredDeclarations


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverPlan:
    """The declarations that hold, the changes of the store, and by upstream why its section was refused.

    `before_file` has what was declared before of those that the file has changed.
    """

    declarations: Mapping[str, Declaration]
    changes: Mapping[str, Declaration | None]
    refused: Mapping[str, str]
    before_file: Mapping[str, Declaration | None]


def plan_takeover(
    stored: StoredDeclarations, own: Mapping[str, Declaration] | None, file: Mapping[str, Upstream]
) -> TakeoverPlan:
    """Return the plan; `own` are the caller's declarations if it led last, else None.

    Damaged declarations in the store are not overwritten: a person may want to repair them.
    """
    now = dict(stored.known if own is None else own)
    refused, before_file = {}, {}
    for name, section in file.items():
        try:
            applied = with_file(now.get(name), section)
        except ValidationError as error:
            refused[name] = f"it does not go with what was set over REST, and is left out: {mistakes(error)}"
            continue
        if applied is not None:
            before_file[name] = now.get(name)
            now[name] = applied
    changes: dict[str, Declaration | None] = {name: None for name in stored.known if name not in now}
    for name, declared in now.items():
        if name not in stored.damaged and stored.known.get(name) != declared:
            changes[name] = declared
    for name in stored.damaged & set(now):
        refused[name] = "its declaration in the store is damaged; the file's stands until a change over REST"
    return TakeoverPlan(declarations=now, changes=changes, refused=refused, before_file=before_file)
