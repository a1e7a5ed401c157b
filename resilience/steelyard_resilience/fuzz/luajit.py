"""The data plane's decoders on LuaJIT, which nginx runs: openresty/steelyard/spec/support/fuzz_run.lua.

The same weight tables also go to Python and to LuaJIT: what one takes the other takes, and reads alike.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

from steelyard_loadtest.machine.errors import ProgramError

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz import agreement, generated
from steelyard_resilience.fuzz.target import Tally, Target, Violation, ViolationError, outcome_of, require

METHOD = "generated Lua"

LUA = (
    "lua-weight-table", "lua-head", "lua-chunks", "lua-list", "lua-slices", "lua-signed", "lua-address",
    "lua-options", "lua-report", "lua-orca", "lua-failures",
)  # fmt: skip

BOTH, BOTH_METHOD = "weight-table-both", "Python and Lua"

RUNNER = Path("openresty/steelyard/spec/support/fuzz_run.lua")

# Seconds of CPU on a machine that does other things too.
PATIENCE_S = 60.0

Judge = Callable[[str, bytes], dict[str, Any]]
"""From a Lua target's name and an input to `outcome` and `value`, or `broken`."""


def run(target: str, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Try inputs of a target for so long; raise ProgramError where the runner fails."""
    command = ["luajit", str(RUNNER), str(seed), str(seconds), target.removeprefix("lua-")]
    patience_s = 5 * seconds + PATIENCE_S
    try:
        done = subprocess.run(
            command, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=patience_s
        )
    except subprocess.TimeoutExpired:
        raise ProgramError(f"`{' '.join(command)}` hangs") from None
    except subprocess.CalledProcessError as ended:
        raise ProgramError(f"`{' '.join(command)}` ended: {ended.stderr.strip()[-300:]}") from None
    for line in done.stdout.splitlines():
        tally = json.loads(line)
        broken = [
            Violation(what=each["what"], input=bytes.fromhex(each["input"])) for each in tally["violations"]
        ]
        yield Tally(
            target, METHOD, about=tally["about"], outcomes=dict(tally["outcomes"]), violations=tuple(broken)
        )  # fmt: skip


@contextmanager
def judging() -> Iterator[Judge]:
    """Run a LuaJIT that judges inputs while the block runs; ProgramError where it has ended."""
    command = ["luajit", str(RUNNER), "judge"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        questions, answers = cast("tuple[IO[bytes], IO[bytes]]", (process.stdin, process.stdout))

        def judge(target: str, data: bytes) -> dict[str, Any]:
            with suppress(BrokenPipeError):
                questions.write(f"{target} {len(data)}\n".encode() + data)
                questions.flush()
            line = answers.readline()
            if not line:
                raise ProgramError(f"LuaJIT ended with {process.wait()}")
            answer: dict[str, Any] = json.loads(line.decode("utf-8", "replace"))
            return answer

        try:
            yield judge
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                questions.close()


def compare(table: Target, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Feed weight tables to both for so long; raise ProgramError when LuaJIT ends."""
    harmless = Counter[str]()
    with judging() as judge:

        def both(data: bytes) -> str:
            lua = judge("weight-table", data)
            require("broken" not in lua, f"Lua: {lua.get('broken')}")
            try:
                python = outcome_of(table, data)
            except ViolationError as error:
                raise ViolationError(f"Python: {error}") from error
            what = agreement.difference(data, lua)
            if what is not None:
                why = agreement.known(data, lua)
                require(why, what)
                harmless[str(why)] += 1
            elif python != lua["outcome"]:
                harmless["refused by both for different reasons"] += 1
            outcome: str = lua["outcome"]
            return outcome

        target = Target(BOTH, "what one takes the other takes, and reads alike", both, table.seeds)
        tally = generated.run(target, seconds=seconds, seed=seed, method=BOTH_METHOD)
    yield replace(tally, notes=tuple(f"{count} x {why}" for why, count in harmless.most_common()))
