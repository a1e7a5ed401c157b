"""Finds the programs that can be measured on this machine, and their versions. I/O only."""

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.programs import FAIR, LUA, OTHERS, STREAM_LUA, VNSWRR, Programs
from steelyard_loadtest.reporting.conditions import UNKNOWN, version_of


def find(nginx: str | None, *, least_time: str | None = None) -> Programs:
    """Find the programs. Raises SetupError.

    nginx: the one to measure, by default the one on PATH. least_time: an nginx that has this method,
    instead of the installed mainline.
    """
    look_in_system_folders()
    wrk = shutil.which("wrk")
    backend = shutil.which("nginx") or (nginx and shutil.which(nginx))
    measured = shutil.which(nginx or "nginx")
    if measured is None or not backend:
        raise SetupError(f"there is no nginx at {nginx or 'PATH'} (apt-get install nginx, or --nginx PATH)")
    found = {name: _path(program.command) for name, program in OTHERS.items()}
    if least_time:
        found["nginx-mainline"] = shutil.which(least_time)
        if found["nginx-mainline"] is None:
            raise SetupError(f"there is no nginx at --nginx-least-time {least_time}")
    others = {name: path for name, path in found.items() if path}
    asked = {
        "wrk": (wrk, "-v", r"(\d[\d.]*\S*) \["),
        "nginx": (measured, "-V", r"version: (\S+)"),
    }
    versions = {
        name: version_of([program, flag], pattern)
        for name, (program, flag, pattern) in asked.items()
        if program
    }
    versions |= {OTHERS[name].title: _version(name, path) for name, path in others.items()}
    return Programs(
        wrk=wrk,
        nginx=measured,
        backend_nginx=backend,
        memcached=shutil.which("memcached"),
        others=others,
        modules={names: modules(measured, names) for names in (LUA, STREAM_LUA, FAIR, VNSWRR)},
        versions=versions,
    )


def _path(command: str) -> str | None:
    """Return the file of a command, or None; Python packages bring some, in the folder of this Python."""
    return shutil.which(command) or shutil.which(Path(sys.executable).with_name(command))


def _version(name: str, path: str) -> str:
    """Return the version of one of OTHERS."""
    program = OTHERS[name]
    if program.version:
        argument, pattern = program.version
        return version_of([path, argument], pattern)
    try:
        return metadata.version(program.command)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def look_in_system_folders() -> None:
    """Look for programs where only root's PATH looks, too: Debian keeps nginx and HAProxy there."""
    folders = ("/usr/local/sbin", "/usr/sbin", "/sbin")
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *folders])


def modules(nginx: str, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the files that an nginx must load for these modules; empty for built-in ones.

    None if it does not have them.
    """
    inside = Path(nginx).read_bytes()
    path = version_of([nginx, "-V"], r"--modules-path=(\S+)")
    folder = Path("/usr/lib/nginx/modules" if path == UNKNOWN else path)
    files = [folder / f"{name}.so" for name in names if name.encode() not in inside]
    return tuple(map(str, files)) if all(file.exists() for file in files) else None
