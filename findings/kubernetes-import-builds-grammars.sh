#!/usr/bin/env bash
# Importing the `kubernetes` client builds 39 grammars when jsonschema's optional formats are installed.
#
# Versions:  kubernetes 37.0.2, kubernetes-validate 1.37.0, jsonschema 4.26.0 with format-nongpl,
#            rfc3987-syntax 1.1.0, lark 1.3.1
# Expected:  importing a client is cheap, and a format that nobody checks costs nothing.
# Seen:      `import kubernetes` imports kubernetes-validate if it is there, and that imports jsonschema.
#            jsonschema imports rfc3987-syntax if it is there. That package builds a parser for each rule of
#            RFC 3987: 39 of them, about 2 s of CPU in each process. Without the package, none is built.
# Steelyard: tests and controllers of a checkout paid it at each start, because the tool for bills of materials
#            asks for jsonschema with all formats. pyproject.toml leaves rfc3987-syntax out.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  kubernetes==37.0.2 kubernetes-validate==1.37.0 'jsonschema[format-nongpl]==4.26.0' \
  rfc3987-syntax==1.1.0 lark==1.3.1

grammars() {
  "$folder/venv/bin/python" - <<'PYTHON'
try:
    import lark
except ImportError:
    print(-1)
    raise SystemExit
built = 0
original = lark.Lark.__init__


def counting(self, *arguments, **options):
    global built
    built += 1
    original(self, *arguments, **options)


lark.Lark.__init__ = counting
import kubernetes

print(built)
PYTHON
}

with=$(grammars)
"$folder/venv/bin/pip" uninstall --quiet --yes rfc3987-syntax
without=$(grammars)
echo "grammars built by import kubernetes: $with with rfc3987-syntax, $without without"
[ "$with" = 39 ] && [ "$without" = 0 ]
