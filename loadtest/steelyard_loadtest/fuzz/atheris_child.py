"""The process that libFuzzer runs in: `python -m ...fuzz.atheris_child FOLDER FLAG... TARGET...`.

The decoders are loaded with a counter in every branch, so libFuzzer keeps the inputs that reach new code.
Half of
its mutations are ours, of the JSON as a tree: bytes alone hardly ever leave it JSON. Loading takes seconds
and
libFuzzer ends its process: so each target has a fork, and FOLDER/TARGET.counts and .log.
"""

import logging
import os
import sys
from pathlib import Path
from random import Random

import atheris  # type: ignore[import-untyped]

from steelyard_loadtest.fuzz.counters import Writer
from steelyard_loadtest.fuzz.draw import changed
from steelyard_loadtest.fuzz.model import Target, ViolationError, outcome_of

PRODUCT = ["steelyard_agent", "steelyard_controller"]


def main() -> None:
    """Fuzz one target after the other; after each say its name and the status of its process."""
    folder, given = Path(sys.argv[1]), sys.argv[2:]
    flags = [flag for flag in given if flag.startswith("-")]
    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=PRODUCT):
        from steelyard_loadtest.fuzz.targets import targets
    known = {target.name: target for target in targets()}
    for name in (name for name in given if not name.startswith("-")):
        child = os.fork()
        if child == 0:
            _fuzz(known[name], folder, [*flags, str(folder / f"{name}.corpus")])
        _, status = os.waitpid(child, 0)
        print(name, os.waitstatus_to_exitcode(status), flush=True)


def _fuzz(target: Target, folder: Path, flags: list[str]) -> None:
    log = os.open(folder / f"{target.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    count = Writer(folder / f"{target.name}.counts")

    def one(data: bytes) -> None:
        try:
            count.add(outcome_of(target, data))
        except ViolationError as error:
            print(f"VIOLATION {error}", file=sys.stderr, flush=True)
            raise

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        if seed % 2:
            return changed(Random(seed), data, target.form)[:longest]
        mutated: bytes = atheris.Mutate(data, longest)
        return mutated

    atheris.Setup(["fuzz", *flags], one, custom_mutator=mutate)
    atheris.Fuzz()
    os._exit(0)


if __name__ == "__main__":
    main()
