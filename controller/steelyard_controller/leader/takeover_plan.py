"""The plan of a takeover: the new leader's declarations, and the changes to make in the store.

Pure. Usually the store is right, because the previous leader stored every
change. The exception is a controller that led last, and lost the lease only
because the store was unreachable, wiped, or restored from an older copy. Its own
declarations are newer than the store's. Then `declaration.with_file` applies the
configuration file to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from steelyard_controller.declarations.declaration import Declaration, mistakes, with_file
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.store.interface import StoredDeclarations


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverPlan:
    """The declarations in force and the changes to make in the store.

    refused       why the file's section of an upstream was refused, by upstream
    before_file   the previous declarations of upstreams that the file changed
    """

    declarations: Mapping[str, Declaration]
    changes: Mapping[str, Declaration | None]
    refused: Mapping[str, str]
    before_file: Mapping[str, Declaration | None]


def plan_takeover(
    stored: StoredDeclarations, own: Mapping[str, Declaration] | None, file: Mapping[str, Upstream]
) -> TakeoverPlan:
    """Return the plan; `own` are the caller's declarations if it led last, else None.

    Damaged declarations in the store stay there: a person may want to repair them.
    """
    now = dict(stored.known if own is None else own)
    refused, before_file = {}, {}
    for name, section in file.items():
        try:
            applied = with_file(now.get(name), section)
        except ValidationError as error:
            refused[name] = f"it contradicts what was set over REST, and is ignored: {mistakes(error)}"
            continue
        if applied is not None:
            before_file[name] = now.get(name)
            now[name] = applied
    changes: dict[str, Declaration | None] = {name: None for name in stored.known if name not in now}
    for name, declared in now.items():
        if name not in stored.damaged and stored.known.get(name) != declared:
            changes[name] = declared
    for name in stored.damaged & set(now):
        refused[name] = "its stored declaration is damaged; the file's is used until a change over REST"
    return TakeoverPlan(declarations=now, changes=changes, refused=refused, before_file=before_file)
