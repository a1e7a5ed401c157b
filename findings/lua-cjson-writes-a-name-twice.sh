#!/usr/bin/env bash
# lua-cjson writes an object with one name twice if a table has both "1" and 1 as keys.
#
# Versions:  lua-cjson 2.1.0 (Debian 12), LuaJIT 2.1 (luajit2 2.1-20230119-1), Python 3.11
# Expected:  it raises an error, as for other tables that JSON cannot hold (sparse arrays, keys that are booleans), or
#            writes one of the two. "The names within an object SHOULD be unique" (RFC 8259, 4).
# Seen:      {["1"]="text", [1]="number"} is written with "1" twice, so a reader gets one of the values, mostly the
#            last. A table like this comes about easily: ids from JSON or from nginx's variables are texts, and ids
#            from a loop are numbers.
# Steelyard: the tables that it encodes as objects have names as keys, never numbers; lists come from ipairs.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root lua-cjson=2.1.0+dfsg-2.2 luajit2=2.1-20230119-1 \
  libluajit2-5.1-2=2.1-20230119-1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu" LUA_CPATH="$folder/usr/lib/x86_64-linux-gnu/lua/5.1/?.so"

seen=$(usr/bin/luajit -e '
  local cjson = require "cjson"
  local text = cjson.encode({ ["1"] = "text", [1] = "number" })
  local _, times = string.gsub(text, "\"1\":", "")
  local read = cjson.decode(text)
  local others = {}
  for key in pairs(read) do others[#others + 1] = type(key) .. " " .. key end
  print(times .. " times, read as: " .. table.concat(others, ", "))
  print("sparse: " .. tostring(pcall(cjson.encode, { [1] = 1, [99] = 2 })))
')
echo "the name \"1\" is written $seen"
[ "$seen" = "2 times, read as: string 1
sparse: false" ]
