"""One run: every target under every method that fits it, one after the other."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from steelyard_loadtest.fuzz import api, by_atheris, by_comparison, by_hypothesis, lua
from steelyard_loadtest.fuzz.model import Tally, Target, Violation, ViolationError, outcome_of
from steelyard_loadtest.fuzz.ports import attack
from steelyard_loadtest.fuzz.ports.rig import Rig
from steelyard_loadtest.fuzz.targets import targets
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.found import find

BOTH = "weight-table, both"

LUA = ("lua-weight-table", "lua-slices", "lua-signed", "lua-address", "lua-options", "lua-report")

# schemathesis asks some hundred times for all operations before its time counts.
API_LEAST_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is tried, and for how long. quick: libFuzzer only where the network writes the input."""

    seconds: float
    quick: bool
    seed: int
    out: Path
    only: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Tell whether a target is to be tried."""
        return not self.only or name in self.only


def run(plan: Plan) -> Iterator[Tally]:
    """Try everything; yield what came of each target under each method. Raises SetupError."""
    decoders = targets()
    names = [target.name for target in decoders] + [BOTH, *LUA, *api.NAMES, *attack.NAMES]
    for name in plan.only:
        if name not in names:
            raise SetupError(f"there is no target {name}; there are: {', '.join(names)}")
    wanted = [target for target in decoders if plan.wants(target.name)]
    for target in wanted:
        yield by_hypothesis.run(target, seconds=plan.seconds, seed=plan.seed)
    yield from _guided(plan, [target for target in wanted if target.network or not plan.quick])
    if any(plan.wants(name) for name in (BOTH, *LUA)):
        table = next(target for target in decoders if target.name == "weight-table")
        yield from _on_luajit(plan, table)
    yield from _on_daemons(plan)


def kept(plan: Plan, tally: Tally) -> Iterator[str]:
    """Save the inputs of violations; yield what happened, and how to repeat it."""
    folder = plan.out / "violations"
    for violation in tally.violations:
        said = f"{tally.target}: {violation.what}"
        if violation.input:
            folder.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256(violation.input).hexdigest()[:12]
            file = folder / f"{tally.target.replace(', ', '-')}-{digest}"
            file.write_bytes(violation.input)
            said += f"\n    again: {_again(plan, tally, file)}"
        yield said


def repeat(plan: Plan, file: Path) -> int:
    """Give one input to the decoder of the plan; print what it makes of it, and return 1 for a violation."""
    found = [target for target in targets() if target.name in plan.only]
    if len(found) != 1:
        raise SetupError("--input needs --only with the name of one of Python's decoders")
    try:
        print(f"{found[0].name}: {outcome_of(found[0], file.read_bytes())}")
    except OSError as error:
        raise SetupError(f"--input: {file} cannot be read: {error.strerror}") from None
    except ViolationError as error:
        print(f"VIOLATION {found[0].name}: {error}")
        return 1
    return 0


def _again(plan: Plan, tally: Tally, file: Path) -> str:
    if tally.target in LUA or tally.target == BOTH:
        name = "weight-table" if tally.target == BOTH else tally.target.removeprefix("lua-")
        return f'(echo "{name} $(stat -c %s {file})"; cat {file}) | luajit {lua.RUNNER} judge'
    if tally.method == attack.METHOD:
        return (
            f"steelyard-loadtest fuzz --only {tally.target} --seed {plan.seed} (the daemon's log is {file})"
        )
    if tally.method == api.METHOD:
        return f"what schemathesis said is in {file}"
    return f"steelyard-loadtest fuzz --only {tally.target} --input {file}"


def _guided(plan: Plan, wanted: list[Target]) -> Iterator[Tally]:
    why = by_atheris.missing()
    if why is None:
        yield from by_atheris.run(wanted, seconds=plan.seconds, seed=plan.seed) if wanted else ()
    else:
        yield Tally(target="all of these", method=by_atheris.METHOD, skipped=why)


def _on_luajit(plan: Plan, table: Target) -> Iterator[Tally]:
    why = lua.missing()
    if why is not None:
        yield Tally(target="lua", method=lua.METHOD, skipped=why)
        return
    if plan.wants(BOTH):
        yield from _tried(BOTH, by_comparison.METHOD, lambda: iter(
            [by_comparison.run(table, seconds=plan.seconds, seed=plan.seed)]
        ))  # fmt: skip
    for name in LUA:
        if plan.wants(name):
            only = name.removeprefix("lua-")
            yield from _tried(name, lua.METHOD, partial(lua.run, only, seconds=plan.seconds, seed=plan.seed))


def _on_daemons(plan: Plan) -> Iterator[Tally]:
    ports = tuple(name for name in attack.NAMES if plan.wants(name))
    live = tuple(name for name in api.NAMES if plan.wants(name))
    if not ports and not live:
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steelyard-fuzz-")))
        rig = Rig(folder, find(None))
        stack.callback(rig.close)
        if ports:
            yield from _tried(
                "ports",
                attack.METHOD,
                lambda: attack.run(rig, names=ports, seconds=plan.seconds, seed=plan.seed),
            )
        why = api.missing()
        if live and why is not None:
            yield Tally(target="api", method=api.METHOD, skipped=why)
        elif live and plan.quick and not plan.only:
            yield Tally(
                target="api",
                method=api.METHOD,
                skipped="controller/tests/test_api_schema.py is its quick form",
            )
        elif live:
            seconds = max(API_LEAST_S, plan.seconds)
            yield from _tried(
                "api", api.METHOD, lambda: api.run(rig, folder, names=live, seconds=seconds, seed=plan.seed)
            )


def _tried(name: str, method: str, attempt: Callable[[], Iterator[Tally]]) -> Iterator[Tally]:
    try:
        yield from attempt()
    except ProgramError as error:
        yield Tally(target=name, method=method, violations=(Violation(what=str(error), input=b""),))
