"""One run: every target under every method that fits it, one after the other."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.find_programs import find

from steelyard_resilience.fuzz import api, by_atheris, by_hypothesis, luajit, port_attack
from steelyard_resilience.fuzz.luajit import BOTH, LUA
from steelyard_resilience.fuzz.port_daemons import Rig
from steelyard_resilience.fuzz.target import Tally, Violation, ViolationError, outcome_of
from steelyard_resilience.fuzz.targets import targets

QUICK_API = "controller/tests/api/test_api_schema.py is its quick form"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is tried, and for how long. quick: libFuzzer only where the network writes the input."""

    seconds: float
    quick: bool
    seed: int
    out: Path
    only: tuple[str, ...] = ()

    def wanted(self, *names: str) -> list[str]:
        """Return those of the targets that are to be tried."""
        return [name for name in names if not self.only or name in self.only]


def run(plan: Plan) -> Iterator[Tally]:
    """Try everything; yield what came of each target under each method. Raises SetupError."""
    decoders = {target.name: target for target in targets()}
    names = [*decoders, BOTH, *LUA, *api.KINDS, *port_attack.NAMES]
    for name in plan.only:
        if name not in names:
            raise SetupError(f"there is no target {name}; there are: {', '.join(names)}")
    wanted = [decoders[name] for name in plan.wanted(*decoders)]
    for target in wanted:
        yield by_hypothesis.run(target, seconds=plan.seconds, seed=plan.seed)
    guided = [target for target in wanted if target.network or not plan.quick]
    if guided:
        attempt: Callable[..., Iterator[Tally]] = partial(by_atheris.run, guided)
        yield from _tried(plan, "all of these", by_atheris.METHOD, attempt, by_atheris.missing())
    for name in plan.wanted(BOTH):
        attempt = partial(luajit.compare, decoders["weight-table"])
        yield from _tried(plan, name, luajit.BOTH_METHOD, attempt, luajit.missing())
    for name in plan.wanted(*LUA):
        yield from _tried(plan, name, luajit.METHOD, partial(luajit.run, name), luajit.missing())
    ports, live = plan.wanted(*port_attack.NAMES), plan.wanted(*api.KINDS)
    if not ports and not live:
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-fuzz-") as folder, closing(_rig(folder)) as rig:
        if ports:
            yield from _tried(plan, "ports", port_attack.METHOD, partial(port_attack.run, rig, ports))
        if live:
            quick = QUICK_API if plan.quick and not plan.only else None
            yield from _tried(plan, "api", api.METHOD, partial(api.run, rig, live), api.missing() or quick)


def _rig(folder: str) -> Rig:
    return Rig(Path(folder), find(None))


def _tried(
    plan: Plan, name: str, method: str, attempt: Callable[..., Iterator[Tally]], why_not: str | None = None
) -> Iterator[Tally]:
    if why_not:
        yield Tally(target=name, method=method, skipped=why_not)
        return
    try:
        yield from attempt(seconds=plan.seconds, seed=plan.seed)
    except ProgramError as error:
        yield Tally(target=name, method=method, violations=(Violation(what=str(error)),))


def kept(plan: Plan, tally: Tally) -> Iterator[str]:
    """Save the inputs of violations; yield what happened, and how to repeat it."""
    folder = plan.out / "violations"
    for violation in tally.violations:
        told = f"{tally.target}: {violation.what}"
        if violation.input:
            folder.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256(violation.input).hexdigest()[:12]
            file = folder / f"{tally.target.replace(', ', '-')}-{digest}"
            file.write_bytes(violation.input)
            told += f"\n    again: {_again(plan, tally, file)}"
        yield told


def _again(plan: Plan, tally: Tally, file: Path) -> str:
    again = f"steelyard-loadtest fuzz --only {tally.target}"
    match tally.method:
        case luajit.METHOD | luajit.BOTH_METHOD:
            name = tally.target.removesuffix(", both").removeprefix("lua-")
            return f'(echo "{name} $(stat -c %s {file})"; cat {file}) | luajit {luajit.RUNNER} judge'
        case port_attack.METHOD:
            return f"{again} --seed {plan.seed} (the daemon's log is {file})"
        case api.METHOD:
            return f"what schemathesis printed is in {file}"
    return f"{again} --input {file}"


def repeat(plan: Plan, file: Path) -> int:
    """Give one input to the decoder of the plan; print what it makes of it, and return 1 for a violation."""
    chosen = [target for target in targets() if target.name in plan.only]
    if len(chosen) != 1:
        raise SetupError("--input needs --only with the name of one of Python's decoders")
    try:
        print(f"{chosen[0].name}: {outcome_of(chosen[0], file.read_bytes())}")
    except OSError as error:
        raise SetupError(f"--input: {file} cannot be read: {error.strerror}") from None
    except ViolationError as error:
        print(f"VIOLATION {chosen[0].name}: {error}")
        return 1
    return 0
