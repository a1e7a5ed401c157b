#!/usr/bin/env bash
# Debian's LuaJIT gives another math.max of a NaN when it has compiled the loop.
#
# Versions:  LuaJIT 2.1.0-beta3 (Debian 12, luajit2 2.1-20230119-1); LuaJIT 2.1.1774896198 (lupa 2.8, PyPI) does not
# Expected:  code does the same whether it is interpreted or compiled. And LuaJIT is "fully upwards-compatible with
#            Lua 5.1", where math.max(NaN, 1) is NaN and math.max(1, NaN) is 1.
# Seen:      interpreted, it is the other way round: math.max(NaN, 1) is 1. A clamp of a NaN, math.max(0, math.min(1,
#            x)), is NaN interpreted and 1 compiled. A running minimum with a NaN on its way is 1 interpreted, and 300
#            compiled. In the newer version both give the interpreter's results.
# Steelyard: lets no NaN in. Input goes through core/number.lua, whose comparisons are false for NaN, and not through
#            a clamp of math.max and math.min.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root luajit2=2.1-20230119-1 libluajit2-5.1-2=2.1-20230119-1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages lupa==2.8

cat >loop.lua <<'LUA'
local LOOPS = {
  clamp = [[
    return function(numbers)
      local clamped
      for i = 1, #numbers do clamped = math.max(0, math.min(1, numbers[i])) end
      return clamped
    end]],
  minimum = [[
    return function(numbers)
      local least = 1e9
      for i = 1, #numbers do least = math.min(numbers[i], least) end
      return least
    end]],
}

local function outcomes(name, nan_at)
  local numbers = {}
  for i = 1, 300 do numbers[i] = i == nan_at and 0 / 0 or i end
  local interpreted, compiled = loadstring(LOOPS[name])(), loadstring(LOOPS[name])()
  jit.off(interpreted)
  return tostring(interpreted(numbers)) .. " interpreted, " .. tostring(compiled(numbers)) .. " compiled"
end

local nan = 0 / 0
return "max(NaN, 1) " .. math.max(nan, 1) .. ", clamp " .. outcomes("clamp", 300)
       .. ", minimum " .. outcomes("minimum", 299)
LUA

debian=$(usr/bin/luajit -e 'print(dofile("loop.lua"))')
newer=$(PYTHONPATH=packages python3 -c '
from lupa.luajit21 import LuaRuntime
print(LuaRuntime().execute(open("loop.lua", encoding="utf-8").read()))
')
usr/bin/luajit -v
echo "Debian 12: $debian"
echo "lupa 2.8:  $newer"
[ "$debian" = "max(NaN, 1) 1, clamp nan interpreted, 1 compiled, minimum 1 interpreted, 300 compiled" ]
[ "$newer" = "max(NaN, 1) 1, clamp nan interpreted, nan compiled, minimum 1 interpreted, 1 compiled" ]
