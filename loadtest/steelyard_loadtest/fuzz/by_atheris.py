"""Fuzz targets with atheris, which is libFuzzer for Python: guided by the code that inputs reach."""

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard_loadtest.fuzz import counters, libfuzzer
from steelyard_loadtest.fuzz.model import Tally, Target, Violation

METHOD = "atheris"

# libFuzzer's clock has whole seconds; for less there is a number of inputs.
SHORT_RUNS = 2000

CHILD = "steelyard_loadtest.fuzz.atheris_child"

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
        errors = folder / "errors"
        with (
            errors.open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as child,
        ):
            known = {target.name: target for target in targets}
            for line in child.stdout or ():
                name, _, status = line.partition(" ")
                yield _tally(known.pop(name), folder, int(status))
        why = (
            f"its process ended with {child.returncode}: {errors.read_text(errors='replace').strip()[-300:]}"
        )
        for target in known.values():
            yield Tally(
                target=target.name,
                method=METHOD,
                about=target.about,
                violations=(Violation(what=why, input=b""),),
            )


def _tally(target: Target, folder: Path, status: int) -> Tally:
    output = (folder / f"{target.name}.log").read_text(errors="replace")
    said = libfuzzer.parse(output)
    outcomes = counters.read(folder / f"{target.name}.counts")
    return Tally(
        target=target.name,
        method=METHOD,
        about=target.about,
        tried=outcomes.total() + (status != 0),
        outcomes=dict(outcomes),
        reached=said.reached,
        violations=_violations(output, status, said.crash),
    )


def _violations(output: str, status: int, crash: str | None) -> tuple[Violation, ...]:
    if status == 0:
        return ()
    said = [line.removeprefix("VIOLATION ") for line in output.splitlines() if line.startswith("VIOLATION ")]
    data = Path(crash).read_bytes() if crash and Path(crash).exists() else b""
    what = said[-1] if said else f"its process ended with {status}: {output.strip()[-300:]}"
    return (Violation(what=what, input=data),)
