#!/usr/bin/env bash
# `limit: on` in a YAML file is the limit 1: PyYAML reads true, and pydantic takes true for a number.
#
# Versions:  pydantic 2.14.3, PyYAML 6.0.3, msgspec 0.22.0 (PyPI)
# Expected:  a model with `limit: int` and `share: float` refuses a value that is no number. In YAML 1.2, `on` and `yes`
#            are texts.
# Seen:      PyYAML follows YAML 1.1, where on, yes and true are true, and off, no and false are false. pydantic's usual
#            (lax) mode converts these to 1 and 0 for int and float alike, also from JSON. So each half does what its
#            own reference says, and together they make a limit of one out of "on". Strict mode refuses true, and so
#            does msgspec by default.
# Steelyard: validates files and requests with strict=True (settings.py, cli/yaml_file.py, api/request_body.py).
#            Otherwise `max_conns: on` would allow each server one request.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile \
  --target "$folder/packages" pydantic==2.14.3 PyYAML==6.0.3 msgspec==0.22.0 2>/dev/null
PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
from importlib.metadata import version

import msgspec
import pydantic
import yaml


class Limits(pydantic.BaseModel):
    limit: int
    share: float


class Strict(Limits, strict=True):
    pass


class Struct(msgspec.Struct):
    limit: int
    share: float


document = yaml.safe_load("limit: on\nshare: yes\n")
lax = Limits.model_validate(document)
from_json = Limits.model_validate_json('{"limit": true, "share": true}')
refused = []
for name, read in (
    ("pydantic's strict mode", lambda: Strict.model_validate(document)),
    ("msgspec", lambda: msgspec.convert(document, Struct)),
):
    try:
        read()
    except (pydantic.ValidationError, msgspec.ValidationError):
        refused.append(name)
names = ", ".join(f"{name} {version(name)}" for name in ("pydantic", "PyYAML", "msgspec"))
print(f"{names}: `limit: on` and `share: yes` are {lax!r}; so is JSON's true: {from_json == lax}; refused by {refused}")
assert lax == from_json == Limits(limit=1, share=1.0)
assert refused == ["pydantic's strict mode", "msgspec"]
PYTHON
