"""Fuzz targets with atheris, which is libFuzzer for Python: guided by the code that inputs reach.

`python -m ... FOLDER FLAG... TARGET...` is the process that libFuzzer runs in. The decoders are loaded with a
counter in every branch, so libFuzzer keeps the inputs that reach new code. Half of its mutations are ours, of
the JSON as a tree: bytes alone hardly ever leave it JSON. Loading takes seconds and libFuzzer ends its
process: so each target has a fork.
"""

import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from steelyard_resilience.fuzz.edits import changed
from steelyard_resilience.fuzz.target import Tally, Target, Violation, ViolationError, outcome_of
from steelyard_resilience.fuzz.tool_output import parse_libfuzzer

METHOD = "atheris"

# libFuzzer's clock has whole seconds; for less there is a number of inputs.
SHORT_RUNS = 2000

CHILD = "steelyard_resilience.fuzz.by_atheris"

PRODUCT = ["steelyard_agent", "steelyard_controller", "steelyard_protocol"]

# A decoder that takes so long for LONGEST bytes hangs.
HANG_S = 10

# The decoders' own limit for a sample is 16 kB; what is longer is refused before it is read.
LONGEST = 4096


def missing() -> str | None:
    """Return why atheris cannot be used here; None when it can."""
    if importlib.util.find_spec("atheris"):
        return None
    return "atheris is not installed (its wheels are for Linux on x86-64): run `make setup-tests`"


def run(targets: Sequence[Target], *, seconds: float, seed: int) -> Iterator[Tally]:
    """Try inputs of each target for so long, in processes of their own; yield what came of each."""
    with tempfile.TemporaryDirectory(prefix="steelyard-fuzz-") as made:
        folder = Path(made)
        for target in targets:
            corpus = folder / f"{target.name}.corpus"
            corpus.mkdir()
            for number, text in enumerate(target.seeds):
                (corpus / f"{number:03}").write_bytes(text)
        limit = f"-max_total_time={round(seconds)}" if seconds >= 1 else f"-runs={SHORT_RUNS}"
        command = [
            sys.executable, "-m", CHILD, str(folder), limit,
            f"-seed={seed % 2**31 or 1}", f"-max_len={LONGEST}", f"-timeout={HANG_S}",
            f"-artifact_prefix={folder}/", *(target.name for target in targets),
        ]  # fmt: skip
        known = {target.name: target for target in targets}
        errors = folder / "errors"
        with (
            errors.open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as child,
        ):
            for line in child.stdout or ():
                name, status, outcomes = json.loads(line)
                output = (folder / f"{name}.log").read_text(errors="replace")
                reached, crash = parse_libfuzzer(output)
                violations = [_violation(output, status, crash)] if status else []
                yield known.pop(name).tally(METHOD, outcomes, violations, reached)
        why = f"its process ended with {child.returncode}: {_end_of(errors.read_text(errors='replace'))}"
        for target in known.values():
            ended = (Violation(what=why),)
            yield Tally(target=target.name, method=METHOD, about=target.about, violations=ended)


def _violation(output: str, status: int, crash: str | None) -> Violation:
    named = re.findall(r"^VIOLATION (.*)$", output, re.MULTILINE)
    data = Path(crash).read_bytes() if crash and Path(crash).exists() else b""
    return Violation(
        what=named[-1] if named else f"its process ended with {status}: {_end_of(output)}", input=data
    )


def _end_of(output: str) -> str:
    return output.strip()[-300:]


def main() -> None:
    """Fuzz one target after the other; print of each `[name, its process's status, {outcome: inputs}]`."""
    import atheris  # type: ignore[import-untyped]

    folder, given = Path(sys.argv[1]), sys.argv[2:]
    flags = [flag for flag in given if flag.startswith("-")]
    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=PRODUCT):
        from steelyard_resilience.fuzz.targets import targets
    known = {target.name: target for target in targets()}
    for name in (name for name in given if not name.startswith("-")):
        # libFuzzer leaves its process by _exit: so outcomes are counted on the other end of a pipe.
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _fuzz(known[name], writer, folder / f"{name}.log", [*flags, str(folder / f"{name}.corpus")])
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as lines:
            outcomes = Counter(line.removesuffix("\n") for line in lines)
        _, status = os.waitpid(child, 0)
        print(json.dumps([name, os.waitstatus_to_exitcode(status), outcomes]), flush=True)


def _fuzz(target: Target, outcomes: int, log: Path, flags: list[str]) -> None:
    import atheris

    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, 1)
    os.dup2(opened, 2)

    def one(data: bytes) -> None:
        try:
            os.write(outcomes, f"{outcome_of(target, data)}\n".encode())
        except ViolationError as error:
            print(f"VIOLATION {error}", file=sys.stderr, flush=True)
            raise

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        if seed % 2:
            return changed(Random(seed), data)[:longest]
        mutated: bytes = atheris.Mutate(data, longest)
        return mutated

    atheris.Setup(["fuzz", *flags], one, custom_mutator=mutate)
    atheris.Fuzz()
    os._exit(0)


if __name__ == "__main__":
    main()
