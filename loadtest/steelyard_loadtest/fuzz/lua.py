"""The data plane's decoders on LuaJIT, which nginx runs: openresty/spec/support/fuzz_run.lua."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from steelyard_loadtest.fuzz.contract import CHECKOUT
from steelyard_loadtest.fuzz.model import Tally, Violation
from steelyard_loadtest.machine.errors import ProgramError

METHOD = "generated Lua"

RUNNER = Path("openresty/spec/support/fuzz_run.lua")

# Seconds of CPU on a machine that does other things too.
PATIENCE_S = 60.0


def missing() -> str | None:
    """Return why LuaJIT cannot be used here; None when it can."""
    return None if shutil.which("luajit") else "there is no luajit (apt-get install luajit2)"


def run(target: str, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Try inputs of a target for so long; raise ProgramError where the runner fails."""
    command = ["luajit", str(RUNNER), str(seed), str(seconds), target]
    try:
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
            timeout=5 * seconds + PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        raise ProgramError(f"`{' '.join(command)}` hangs") from None
    if done.returncode != 0:
        raise ProgramError(f"`{' '.join(command)}` ended: {done.stderr.strip()[-300:]}")
    for line in done.stdout.splitlines():
        said = json.loads(line)
        yield Tally(
            target=f"lua-{said['target']}",
            method=METHOD,
            about=said["about"],
            tried=said["tried"],
            outcomes=dict(said["outcomes"]),
            violations=tuple(
                Violation(what=each["what"], input=bytes.fromhex(each["input"]))
                for each in said["violations"]
            ),
        )


class Judge:
    """One LuaJIT that says of each input what it makes of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["luajit", str(RUNNER), "judge"], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __call__(self, target: str, data: bytes) -> dict[str, Any]:
        """Return `outcome` and `value`, or `broken`; raise ProgramError when LuaJIT has ended."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        assert self._process.stdout is not None  # noqa: S101 - as above
        try:
            self._process.stdin.write(f"{target} {len(data)}\n".encode() + data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProgramError(f"LuaJIT ended with {self._process.wait()}") from None
        line = self._process.stdout.readline()
        if not line:
            raise ProgramError(f"LuaJIT ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line.decode("utf-8", "replace"))
        return answer
