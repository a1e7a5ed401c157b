"""Lua archives without Debian: one for luarocks and opm, one for a plain copy."""

import shutil
from pathlib import Path

from release.archives import tar_gz
from release.source_tree import ROCKSPEC


def build(tree: Path, work: Path, out: Path, version: str, made_at_s: int) -> None:
    """Pack lua-resty-vnswrr with its rockspec and dist.ini, and all of Steelyard's Lua with its examples."""
    library = tree / "openresty/lua-resty-vnswrr"
    name = f"lua-resty-vnswrr-{version}"
    tar_gz(library, out / f"{name}.tar.gz", prefix=name, made_at_s=made_at_s)
    shutil.copy(tree / ROCKSPEC.format(version), out)
    shutil.copy(library / "dist.ini", out / f"{name}.dist.ini")
    folder = work / "lua"
    lay_out(tree, folder / "lualib")
    for name in ("bin", "examples"):
        shutil.copytree(tree / "openresty" / name, folder / name)
    for file in (tree / "openresty/README.md", tree / "LICENSE"):
        shutil.copy(file, folder)
    name = f"steelyard-nginx-{version}"
    tar_gz(folder, out / f"{name}.tar.gz", prefix=name, made_at_s=made_at_s)


def lay_out(tree: Path, folder: Path) -> None:
    """Copy the Lua of both folders into one folder for lua_package_path."""
    for room in ("lua-resty-vnswrr", "steelyard"):
        shutil.copytree(tree / "openresty" / room / "lib", folder, dirs_exist_ok=True)
