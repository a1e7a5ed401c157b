#!/usr/bin/env bash
# LuaJIT's math.random(0) is 1, and math.random(1.9) may be 2.
#
# Versions:  LuaJIT 2.0 and 2.1, Lua 5.1 (all in lupa 2.8, PyPI)
# Expected:  Lua's manual: math.random(m) "returns a uniform pseudo-random integer number in the range [1, m]". With m
#            = 0 there is none, and Lua 5.1 raises "interval is empty". LuaJIT is "fully upwards-compatible with Lua
#            5.1". So servers[math.random(#servers)] raises an error if there is no server.
# Seen:      LuaJIT returns 1 for 0, 4 for (5, 3), and 2 in about half of the draws for 1.9: a number beyond the
#            range. It takes the whole part of a fraction of the range, and looks at no bound. So the expression above
#            is nil, and the error comes later, elsewhere.
# Steelyard: pickers return nil without peers before they draw, and draw from whole numbers alone.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$folder" lupa==2.8

PYTHONPATH="$folder" python3 - <<'PYTHON'
from importlib import import_module

DRAWS = 200
CALLS = ("math.random(0)", "math.random(5, 3)", "math.random(1.9)")


def drawn(lua: object, call: str) -> list[int] | str:
    try:
        return sorted({lua.eval(call) for _ in range(DRAWS)})
    except Exception as error:
        return "interval is empty" if "interval is empty" in str(error) else repr(error)


seen = {}
for name in ("luajit20", "luajit21", "lua51"):
    module = import_module(f"lupa.{name}")
    seen[name] = [drawn(module.LuaRuntime(), call) for call in CALLS]
    print(f"{module.LuaRuntime().lua_implementation}: {dict(zip(CALLS, seen[name]))}")
assert seen["luajit20"] == seen["luajit21"] == [[1], [4], [1, 2]]
assert seen["lua51"] == ["interval is empty", "interval is empty", [1]]
PYTHON
