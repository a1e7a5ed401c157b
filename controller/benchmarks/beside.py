"""Run a benchmark of the controller on this tree and on another commit in turns, and print the ratios.

    .venv/bin/python controller/benchmarks/beside.py COMMIT law [--rounds 5] [-- --turns 31]
    .venv/bin/python controller/benchmarks/beside.py COMMIT cycle [--rounds 5] [-- --redis --sizes 2000x10]

Each commit runs its own script, with the libraries of this environment. A round runs both, one after
the other, in alternating order. A noisy machine then slows both alike.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ratios

ROOT = Path(__file__).parents[2]
PACKAGES = ("protocol", "agent", "reporter", "controller")
READERS: dict[str, Callable[[str], ratios.Figures]] = {"cycle": ratios.of_cycle, "law": ratios.of_law}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 2 if the commit does not exist, 1 if a benchmark fails."""
    parser = argparse.ArgumentParser(description="Ratios of a benchmark's figures to another commit's.")
    parser.add_argument("commit", help="the other commit, as git names it: HEAD~20, v0.1.0")
    parser.add_argument("benchmark", choices=sorted(READERS))
    parser.add_argument("--rounds", type=_rounds, default=5, help="runs of each (default 5)")
    parser.epilog = "Options of the benchmark follow after --."
    words = list(sys.argv[1:] if arguments is None else arguments)
    place = words.index("--") if "--" in words else len(words)
    options, of_benchmark = parser.parse_args(words[:place]), words[place + 1 :]
    found = _git("rev-parse", "--verify", "--quiet", f"{options.commit}^{{commit}}")
    if found.returncode:
        parser.error(f"there is no commit {options.commit}: name one that `git log` shows")
    commit, read = found.stdout.strip(), READERS[options.benchmark]
    this: list[ratios.Figures] = []
    other: list[ratios.Figures] = []
    with _tree_of(commit) as tree:
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            turns = [(ROOT, this), (tree, other)]
            for folder, figures in turns if number % 2 == 0 else reversed(turns):
                try:
                    figures.append(read(_printed(folder, options.benchmark, of_benchmark)))
                except subprocess.CalledProcessError as error:
                    print(error.stderr, file=sys.stderr, end="")
                    name = "this tree" if folder == ROOT else options.commit
                    print(f"beside: bench_{options.benchmark}.py of {name} failed", file=sys.stderr)
                    return 1
    print(ratios.table(this, other, options.commit))
    return 0


def _rounds(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of rounds: write one from 1 on")
    return int(text)


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)


@contextmanager
def _tree_of(commit: str) -> Iterator[Path]:
    """Write a commit's files into a temporary folder, until the end."""
    with tempfile.TemporaryDirectory(prefix="steelyard-beside-") as folder:
        packed = subprocess.run(
            ["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def _printed(tree: Path, benchmark: str, options: Sequence[str]) -> str:
    """Return what a tree's benchmark prints; a missed target (status 1 with a table) is a result, too."""
    path = os.pathsep.join(str(tree / package) for package in PACKAGES)
    script = tree / "controller" / "benchmarks" / f"bench_{benchmark}.py"
    command = [sys.executable, str(script), *options]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tree, env=os.environ | {"PYTHONPATH": path}
    )
    if ran.returncode not in (0, 1) or not READERS[benchmark](ran.stdout or "#"):
        raise subprocess.CalledProcessError(ran.returncode, command, ran.stdout, ran.stderr)
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
