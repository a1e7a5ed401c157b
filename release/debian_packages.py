"""Debian packages for servers and load balancers: the agent, and nginx's Lua.

They depend only on packages of Debian 12, so Debian maintains the security updates of those. dpkg-deb packs.
release/debian/ has a folder with the metadata and scripts of each.
"""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

from argcomplete.shell_integration import shellcode

from release import lua_packages


def build(tree: Path, wheels: Path, work: Path, out: Path, version: str, made_at_s: int) -> None:
    """Build both packages of the tree; `wheels` is the folder with its wheels."""

    def agent(root: Path) -> None:
        for name in ("protocol", "agent"):
            with zipfile.ZipFile(wheels / f"steelyard_{name}-{version}-py3-none-any.whl") as wheel:
                wheel.extractall(root / "usr/share/steelyard-agent")
        unit = (tree / "agent/systemd/steelyard-agent.service").read_text(encoding="utf-8")
        _write(root / "lib/systemd/system/steelyard-agent.service", _of_the_package(unit))
        shutil.copy(tree / "agent/README.md", _documents(root, "steelyard-agent"))
        # Without python3-argcomplete they complete nothing.
        for shell, file in (
            ("bash", "bash-completion/completions/steelyard-agent"),
            ("zsh", "zsh/vendor-completions/_steelyard-agent"),
        ):
            _write(root / "usr/share" / file, shellcode(["steelyard-agent"], shell=shell))

    def nginx(root: Path) -> None:
        lua_packages.lay_out(tree, root / "usr/share/lua/5.1")
        (root / "usr/bin").mkdir(parents=True)
        shutil.copy(tree / "openresty/bin/steelyard-upstream", root / "usr/bin")
        documents = _documents(root, "steelyard-nginx")
        for page in (tree / "openresty/README.md", *(tree / "docs").glob("*/nginx*.md")):
            shutil.copy(page, documents)
        shutil.copytree(tree / "openresty/examples", documents / "examples")

    _package("steelyard-agent", agent, tree, work, out, version, made_at_s)
    _package("steelyard-nginx", nginx, tree, work, out, version, made_at_s)


def _of_the_package(unit: str) -> str:
    """Return the systemd unit with the package's paths, without its installation notes."""
    lines = unit[unit.index("[Unit]") :].splitlines()
    changed = {
        "ExecStart=/opt/steelyard-agent/bin/steelyard-agent": "ExecStart=/usr/bin/steelyard-agent",
        "[Service]": "[Service]\nEnvironment=STEELYARD_AGENT_CONFIG=/etc/steelyard/agent.toml",
    }
    assert changed.keys() <= set(lines), "release/debian_packages.py no longer fits the agent's unit"  # noqa: S101
    return "\n".join(changed.get(line, line) for line in lines) + "\n"


def _package(
    name: str, fill: Callable[[Path], None], tree: Path, work: Path, out: Path, version: str, made_at_s: int
) -> None:
    root = work / "debian" / name
    fill(root)
    shutil.copytree(tree / "release/debian" / name / "root", root, dirs_exist_ok=True)
    _write(_documents(root, name) / "copyright", (tree / "LICENSE").read_text(encoding="utf-8"))
    files = [path for path in root.rglob("*") if path.is_file()]
    control = root / "DEBIAN"
    shutil.copytree(tree / "release/debian" / name / "control", control)
    text = (control / "control").read_text(encoding="utf-8")
    size = sum((path.stat().st_size + 1023) // 1024 for path in files)
    _write(control / "control", text.replace("@VERSION@", version).replace("@SIZE@", str(size)))
    settings = [f"/{path.relative_to(root)}" for path in files if path.is_relative_to(root / "etc")]
    _write(control / "conffiles", "".join(f"{path}\n" for path in sorted(settings)))
    for path in root.rglob("*"):
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if runs else 0o644)
    root.chmod(0o755)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, out / f"{name}_{version}_all.deb"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(made_at_s)},
    )


def _documents(root: Path, name: str) -> Path:
    folder = root / "usr/share/doc" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
