"""Tests, lab and simulator read the same list of pickers as nginx."""

import re
from importlib import import_module
from pathlib import Path

from steelyard_loadtest.machine import picker_list

ROOT = Path(__file__).parents[2]


def test_the_list_is_what_lua_says_of_itself() -> None:
    lua = import_module("lupa.luajit21").LuaRuntime()  # it has no types
    folders = (ROOT / "openresty/steelyard/lib", ROOT / "openresty/lua-resty-vnswrr/lib")
    lua.globals().package.path = ";".join(f"{folder}/?.lua" for folder in folders)
    of_lua = [
        picker_list.ListedPicker(each.name, each.by_in_flight, each.by_key, each.library)
        for each in lua.require("steelyard.core.pickers").all().values()
    ]
    assert len(of_lua) >= 8
    assert sorted(picker_list.listed(), key=lambda picker: picker.name) == of_lua
    assert set(picker_list.own()) - set(picker_list.keyless()) == {"bounded_hash", "chash"}


def test_every_picker_has_its_row_on_the_data_plane_s_page() -> None:
    page = (ROOT / "docs/guides/nginx-requests.md").read_text(encoding="utf-8")
    section = page.split("\n## Pickers\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| .{20,} \|$", section, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(names) == sorted(picker.name for picker in picker_list.listed())
