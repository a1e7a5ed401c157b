"""One run: every target under each fitting method, one after the other."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.find_programs import find

from steelyard_resilience.fuzz import generated, luajit, nginx_attack, port_attack
from steelyard_resilience.fuzz.luajit import BOTH, LUA
from steelyard_resilience.fuzz.port_daemons import Rig
from steelyard_resilience.fuzz.target import Tally, Violation
from steelyard_resilience.fuzz.targets import targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The targets of a run, and their time."""

    seconds: float
    seed: int
    out: Path
    only: tuple[str, ...] = ()

    def wanted(self, *names: str) -> list[str]:
        """Return the selected targets among these."""
        return [name for name in names if not self.only or name in self.only]


def run(plan: Plan) -> Iterator[Tally]:
    """Try all selected targets; yield each one's tally. Raises SetupError."""
    decoders = {target.name: target for target in targets()}
    names = [*decoders, BOTH, *LUA, *port_attack.NAMES, nginx_attack.NAME]
    for name in plan.only:
        if name not in names:
            raise SetupError(f"unknown target {name}; the targets are: {', '.join(names)}")
    for name in plan.wanted(*decoders):
        yield generated.run(decoders[name], seconds=plan.seconds, seed=plan.seed)
    if plan.wanted(BOTH, *LUA) and not shutil.which("luajit"):
        raise SetupError("luajit is not installed (apt-get install luajit2)")
    for name in plan.wanted(BOTH):
        yield from _tried(plan, name, luajit.BOTH_METHOD, partial(luajit.compare, decoders["weight-table"]))
    for name in plan.wanted(*LUA):
        yield from _tried(plan, name, luajit.METHOD, partial(luajit.run, name))
    for name in plan.wanted(nginx_attack.NAME):
        yield from _tried(plan, name, nginx_attack.METHOD, partial(nginx_attack.run, find(None)))
    if ports := plan.wanted(*port_attack.NAMES):
        with (
            tempfile.TemporaryDirectory(prefix="steelyard-fuzz-") as folder,
            closing(Rig(Path(folder), find(None))) as rig,
        ):
            yield from _tried(plan, "ports", port_attack.METHOD, partial(port_attack.run, rig, ports))


def _tried(plan: Plan, name: str, method: str, attempt: Callable[..., Iterator[Tally]]) -> Iterator[Tally]:
    try:
        yield from attempt(seconds=plan.seconds, seed=plan.seed)
    except ProgramError as error:
        yield Tally(target=name, method=method, violations=(Violation(what=str(error)),))


def kept(plan: Plan, tally: Tally) -> Iterator[str]:
    """Save the inputs of violations, or the logs; yield each violation with the command to repeat it."""
    folder = plan.out / "violations"
    for violation in tally.violations:
        text = f"{tally.target}: {violation.what}"
        if violation.input:
            folder.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256(violation.input).hexdigest()[:12]
            file = folder / f"{tally.target}-{digest}"
            file.write_bytes(violation.input)
            seed = plan.seed if violation.seed is None else violation.seed
            text += f"\n    again: steelyard-loadtest fuzz --only {tally.target} --seed {seed} (see {file})"
        yield text
