#!/usr/bin/env bash
# lua-cjson decodes 1e999 to infinity, also if it was told to refuse infinity, and cannot encode what it decoded.
#
# Versions:  lua-cjson 2.1.0 (Debian 12), LuaJIT 2.1 (luajit2 2.1-20230119-1), msgspec 0.22.0 (PyPI), Python 3.11
# Expected:  manual of lua-cjson: decode_invalid_numbers(false) makes it "throw an error when invalid numbers are
#            encountered", and "Invalid numbers are defined as: infinity, NaN, hexadecimal". `1e999` is a number of
#            JSON's grammar (RFC 8259, 6) that no double holds.
# Seen:      the setting refuses the words `Infinity` and `NaN` alone. 1e999 becomes infinity with both settings, and
#            cjson.encode then raises "must not be NaN or Inf". Python's json makes infinity of it, too, and takes the
#            two words. msgspec refuses all three.
# Steelyard: core/wire.lua and core/number.lua check each number against finite bounds, and so does msgspec's
#            Meta(le=...).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root lua-cjson=2.1.0+dfsg-2.2 luajit2=2.1-20230119-1 \
  libluajit2-5.1-2=2.1-20230119-1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu" LUA_CPATH="$folder/usr/lib/x86_64-linux-gnu/lua/5.1/?.so"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages msgspec==0.22.0

by_cjson=$(usr/bin/luajit -e '
  local cjson = require("cjson").new()
  cjson.decode_invalid_numbers(false)
  for _, text in ipairs({ "[1e999]", "[Infinity]", "[NaN]" }) do
    local is_read, list = pcall(cjson.decode, text)
    print(text, is_read and list[1] or "refused", is_read and tostring((pcall(cjson.encode, list))) or "-")
  end
')
by_python=$(PYTHONPATH=packages python3 - <<'PYTHON'
import json

import msgspec


def outcome(decode, text: str) -> object:
    try:
        return decode(text)[0]
    except (ValueError, msgspec.MsgspecError):
        return "refused"


for text in ("[1e999]", "[Infinity]", "[NaN]"):
    print(text, outcome(json.loads, text), outcome(msgspec.json.decode, text), sep="\t")
PYTHON
)
echo "lua-cjson with decode_invalid_numbers(false), and whether it encodes the value again:"
echo "$by_cjson"
echo "Python's json and msgspec:"
echo "$by_python"
[ "$by_cjson" = "$(printf '[1e999]\tinf\tfalse\n[Infinity]\trefused\t-\n[NaN]\trefused\t-')" ]
[ "$by_python" = "$(printf '[1e999]\tinf\trefused\n[Infinity]\tinf\trefused\n[NaN]\tnan\trefused')" ]
