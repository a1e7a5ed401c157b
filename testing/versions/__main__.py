"""`python -m testing.versions`: the tests with other versions of programs and libraries."""

import argparse
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from steelyard_loadtest.reporting.markdown import filled
from steelyard_loadtest.reporting.progress import Progress
from steelyard_protocol import whole_file

from testing.versions import subjects, suites, versions_page
from testing.versions.kept_results import KeptResults, Result
from testing.versions.subjects import Subject, VersionsError
from testing.versions.suites import ROOT

PARTS = ("envoy", "haproxy", "nginx", "libraries")
MARKS = "versions"
FOLDER = Path("versions-results")


def main() -> int:
    """Run the matrix; return the exit status: 1 if a test failed."""
    arguments = _parser().parse_args()
    kept = KeptResults(arguments.folder / "results")
    try:
        if arguments.page is not None:
            filled(arguments.page.read_text(encoding="utf-8"), MARKS, "")
        chosen = []
        for subject in _subjects(arguments, kept):
            print(f"versions: {subject.title} is ready", file=sys.stderr)
            if arguments.match in subject.title:
                chosen.append(subject)
        todo = [
            (subject, step)
            for subject in chosen
            for step in subject.steps
            if arguments.again or not kept.has_passed(subject.title, step)
        ]
        with Progress(sys.stderr, steps=len(todo), title="versions") as progress:
            _run(todo, kept, arguments.jobs, progress)
    except (VersionsError, OSError, ValueError) as error:
        print(f"versions: {error}", file=sys.stderr)
        return 2
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    results = kept.results()
    text = versions_page.text(machine, PARTS, results, kept.facts())
    if arguments.page is None:
        print(text)
    else:
        page = arguments.page.read_text(encoding="utf-8")
        whole_file.write(arguments.page, filled(page, MARKS, text).encode())
    titles = {each.title for each in chosen}
    return 1 if any(each.outcome.failed for each in results if each.subject in titles) else 0


def _subjects(arguments: argparse.Namespace, kept: KeptResults) -> Iterator[Subject]:
    folder = arguments.folder.resolve()
    for part in arguments.only:
        if part == "envoy":
            yield from subjects.envoys(folder, {} if arguments.again else kept.facts(), kept.keep_facts)
        elif part == "haproxy":
            yield from subjects.haproxies(folder, subjects.on_path("haproxy") + arguments.haproxy)
        elif part == "nginx":
            yield from subjects.nginxes(subjects.on_path("nginx") + arguments.nginx)
        else:
            yield from subjects.libraries(folder)


def _run(todo: Sequence[tuple[Subject, str]], kept: KeptResults, jobs: int, progress: Progress) -> None:
    commit = _commit()
    numbers: SimpleQueue[int] = SimpleQueue()
    for number in range(jobs):
        numbers.put(number)
    writing = threading.Lock()

    def run(subject: Subject, step: str) -> None:
        number = numbers.get()
        # As pytest's workers do, two steps at a time take their ports from ranges of their own.
        ports = {"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": str(jobs)}
        seen = suites.run(
            subject.python,
            subject.steps[step],
            kept.log(subject.title, step),
            {**subject.environment, **ports},
        )
        numbers.put(number)
        result = Result(
            part=subject.part,
            subject=subject.title,
            tests=subject.tests,
            step=step,
            steps=len(subject.steps),
            date=time.strftime("%Y-%m-%d"),
            commit=commit,
            outcome=seen,
        )
        with writing:
            kept.keep(result)
            failed = f", {len(seen.failed)} failed: {' '.join(seen.failed)}" if seen.failed else ""
            skipped = f", {sum(seen.skipped.values())} skipped" if seen.skipped else ""
            progress.begin(f"{subject.title}: {step}")
            progress.end(f"{seen.passed} passed{skipped}{failed}")

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(run, subject, step) for subject, step in todo]:
            done.result()


def _commit() -> str:
    head = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(head, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make versions",
        description="Run the tests with other versions of Envoy, HAProxy, nginx and Python libraries. "
        "A second run skips the steps that passed.",
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help=f"parts to run (default {' '.join(PARTS)})"
    )
    parser.add_argument(
        "--match", default="", metavar="TEXT", help="text in the program's name and version (default any)"
    )
    parser.add_argument("--again", action="store_true", help="run steps that passed before, too")
    parser.add_argument("--jobs", type=int, default=2, help="steps that run at once (default 2)")
    parser.add_argument(
        "--haproxy", type=Path, action="append", default=[], metavar="FILE", help="a HAProxy beside Debian's"
    )
    parser.add_argument(
        "--nginx", type=Path, action="append", default=[], metavar="FILE", help="an nginx beside Debian's"
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help=f"programs, logs and results (default {FOLDER}/)"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="page to fill between its marks (default none)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
