#!/usr/bin/env bash
# Debian's LuaJIT rounds halves up in string.format, where C rounds them to even.
#
# Versions:  LuaJIT 2.1.0-beta3 (Debian 12, luajit2 2.1-20230119-1); LuaJIT 2.1.1774896198 (lupa 2.8, PyPI) does not
# Expected:  string.format "follows the same rules as the printf family of standard C functions" (Lua's manual). So
#            "%.0f" of 0.5 is 0 and of 2.5 is 2, as in C, Lua 5.1 and Python: the double is exactly half way.
# Seen:      1 and 3; "%.1f" of 0.25 is 0.3, and "%.2f" of 0.125 is 0.13. LuaJIT 2.1 had a formatter of its own, which
#            rounds halves away from zero. The newer version does as C does. So one text of a number in Lua and in
#            Python, for a hash or a signature, differs for such numbers.
# Steelyard: signs and hashes texts as they were sent, and compares no text of a number that another program wrote.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root luajit2=2.1-20230119-1 libluajit2-5.1-2=2.1-20230119-1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages lupa==2.8

lua='string.format("%.0f %.0f %.1f %.2f %.3f", 0.5, 2.5, 0.25, 0.125, 0.0625)'
debian=$(usr/bin/luajit -e "print($lua)")
newer=$(PYTHONPATH=packages python3 -c '
import sys
from lupa.luajit21 import LuaRuntime
print(LuaRuntime().eval(sys.argv[1]))
' "$lua")
python=$(python3 -c 'print("%.0f %.0f %.1f %.2f %.3f" % (0.5, 2.5, 0.25, 0.125, 0.0625))')
echo "Debian 12: $debian"
echo "lupa 2.8:  $newer"
echo "Python:    $python"
[ "$debian" = "1 3 0.3 0.13 0.063" ]
[ "$newer" = "0 2 0.2 0.12 0.062" ]
[ "$python" = "$newer" ]
