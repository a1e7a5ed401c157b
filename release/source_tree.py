"""The source of a release: git's tree at HEAD, stamped with the release's version."""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

# Released distributions, each after its dependencies. The lab, the simulator and the resilience tests measure
# a checkout, so they are not released.
DISTRIBUTIONS = ("protocol", "agent", "controller", "reporter")

ROCKSPEC = "openresty/lua-resty-vnswrr/lua-resty-vnswrr-{}-1.rockspec"

_VERSION = re.compile(r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}")


class ReleaseError(Exception):
    """The release cannot be built; the message has the reason and the remedy."""


def checked_version(text: str) -> str:
    """Return the version; raise `ReleaseError` unless it is three numbers, as in 0.1.0."""
    if _VERSION.fullmatch(text) is None:
        raise ReleaseError(f"VERSION is {text!r}; it must be three numbers: make release VERSION=0.1.0")
    return text


def export(checkout: Path, tree: Path) -> int:
    """Write git's tree at HEAD into an empty folder; return the commit's time, s since 1970."""
    archive = _git(checkout, "archive", "--format=tar", "HEAD")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    return int(_git(checkout, "log", "-1", "--format=%ct"))


def uncommitted(checkout: Path) -> list[str]:
    """Return uncommitted changes; a release contains none of them."""
    return _git(checkout, "status", "--short").decode().splitlines()


def stamp(tree: Path, version: str) -> None:
    """Put the version into every file that names one; raise `ReleaseError` if a file names none."""
    present = (tree / "protocol" / "pyproject.toml").read_text(encoding="utf-8")
    stamped = re.search(r'(?m)^version = "([^"]+)"$', present)
    if stamped is None:
        raise ReleaseError('protocol/pyproject.toml has no line `version = "..."`: add one')
    old = re.escape(stamped[1])
    for name in DISTRIBUTIONS:
        file = tree / name / "pyproject.toml"
        _replace(file, rf'(?m)^version = "{old}"$', f'version = "{version}"')
        if name != "protocol":
            # They are released together. uv would look for the workspace, and a package has none around it.
            _replace(file, r'"steelyard-protocol(\[\w+\])?"', rf'"steelyard-protocol\1=={version}"')
            _replace(file, r"\n\[tool\.uv\.sources\]\n(?:[^\[\n].*\n)+", "")
        shutil.copy(tree / "LICENSE", tree / name / "LICENSE")
    _replace(tree / "openresty/steelyard/lib/steelyard/phase/worker.lua", rf'"{old}"', f'"{version}"')
    _replace(tree / "openresty/lua-resty-vnswrr/lib/resty/vnswrr.lua", rf'"{old}"', f'"{version}"')
    rockspec = tree / ROCKSPEC.format(stamped[1])
    _replace(rockspec, old, version)
    rockspec.rename(tree / ROCKSPEC.format(version))


def _replace(file: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, file.read_text(encoding="utf-8"))
    if count == 0:
        raise ReleaseError(f"{file.name} has no match for {pattern}: adapt release/source_tree.py")
    file.write_text(changed, encoding="utf-8")


def _git(checkout: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(checkout), *arguments], check=True, capture_output=True).stdout
