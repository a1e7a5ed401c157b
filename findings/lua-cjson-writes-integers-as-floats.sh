#!/usr/bin/env bash
# lua-cjson writes an integer of 15 digits as 1e+14, which msgspec refuses as an integer.
#
# Versions:  lua-cjson 2.1.0 (Debian 12), LuaJIT 2.1 (luajit2 2.1-20230119-1), msgspec 0.22.0 (PyPI), Python 3.11
# Expected:  a double holds each integer up to 2^53 (16 digits), and JSON has one kind of number. So such an integer
#            goes from Lua to Python and stays one. The manual of lua-cjson has a precision of 14 digits: an expert
#            thinks of fractions.
# Seen:      cjson.encode(100000000000000) is `1e+14`. Python's json makes a float of it, and a msgspec.Struct with an
#            int refuses the whole message: "Expected `int`, got `float`". 2^53 is `9.007199254741e+15`, and so
#            another number. 99999999999999 comes through. Debian's package has no larger precision than 14.
# Steelyard: its terms and generations may be 2^53, and the controller refused each traffic report with one of 15 or
#            more digits. core/json.lua now writes such integers itself.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root lua-cjson=2.1.0+dfsg-2.2 luajit2=2.1-20230119-1 \
  libluajit2-5.1-2=2.1-20230119-1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu" LUA_CPATH="$folder/usr/lib/x86_64-linux-gnu/lua/5.1/?.so"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages msgspec==0.22.0

usr/bin/luajit -e '
  local cjson = require "cjson"
  for _, number in ipairs({ 99999999999999, 100000000000000, 2 ^ 53 }) do
    print(string.format("%.0f", number), cjson.encode({ count = number }))
  end
  print("precision 16: " .. tostring(pcall(cjson.encode_number_precision, 16)))
' >seen

PYTHONPATH=packages python3 - <<'PYTHON'
import json

import msgspec


class Report(msgspec.Struct):
    count: int


def by_msgspec(text: str) -> object:
    try:
        return msgspec.json.decode(text, type=Report).count
    except msgspec.ValidationError as error:
        return str(error).split(" - ")[0]


with open("seen", encoding="utf-8") as file:
    *rows, precision = file.read().splitlines()
seen = []
for row in rows:
    number, text = row.split("\t")
    seen.append((int(number), text, json.loads(text)["count"], by_msgspec(text)))
    print(f"{number}: cjson writes {text}; json reads {seen[-1][2]!r}, msgspec {seen[-1][3]!r}")
print(precision)
refused = "Expected `int`, got `float`"
assert seen == [
    (99999999999999, '{"count":99999999999999}', 99999999999999, 99999999999999),
    (100000000000000, '{"count":1e+14}', 1e14, refused),
    (9007199254740992, '{"count":9.007199254741e+15}', 9007199254741000.0, refused),
]
assert precision == "precision 16: false"
PYTHON
