#!/usr/bin/env bash
# PyYAML with allow_unicode=True writes U+0085 (next line) as a line break, and reads it back as a blank.
#
# Versions:  PyYAML 6.0.3 (PyPI)
# Expected:  safe_load(safe_dump(value, allow_unicode=True)) is the value, for every text. The documentation has the
#            option for "non-ASCII characters in the output", not for a loss.
# Seen:      "a\x85b" comes back as "a b", and {"\x85": 1} as {" ": 1}. The emitter takes U+0085 for a printable
#            character, and the scanner folds it as a line break of YAML 1.1. Without the option it is an escape, and
#            the text comes back whole. U+2028 and U+2029, the other breaks of YAML 1.1, come back whole as well.
# Steelyard: controller/steelyard_controller/yaml_text.py writes escapes; found by a property of its test.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages PyYAML==6.0.3

python3 -I - <<'PYTHON'
import sys

sys.path.insert(0, "packages")
import yaml

print(f"PyYAML {yaml.__version__}")
seen = {}
for value in ("a\x85b", {"\x85": 1}, "a\u2028b", "a\u2029b"):
    for option in (False, True):
        text = yaml.safe_dump(value, allow_unicode=option)
        back = yaml.safe_load(text)
        seen[ascii(value), option] = back
        print(f"allow_unicode={option!s:5}  {ascii(value):12} written {ascii(text):24} read {ascii(back)}")

assert seen["'a\\x85b'", False] == "a\x85b"
assert seen["'a\\x85b'", True] == "a b"
assert seen["{'\\x85': 1}", False] == {"\x85": 1}
assert seen["{'\\x85': 1}", True] == {" ": 1}
PYTHON
