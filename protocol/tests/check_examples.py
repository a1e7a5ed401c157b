"""Examples of health checks on both sides of every bound of `check_schema`.

`python -m protocol.tests.check_examples`, at the root of the tree, writes them to docs/contract/check.json.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard_protocol import check_schema
from steelyard_protocol.check_schema import FIELDS, CheckField

FILE = Path(__file__).parents[2] / "docs/contract/check.json"

ABOUT = (
    "The member `check` of a weight table, and the settings of a health check: types, bounds, defaults. "
    "Made from protocol/steelyard_protocol/check_schema.py by protocol/tests/check_examples.py. A text "
    "matches its pattern as a whole. A table lacks no setting that is always sent"
)

BASE: dict[str, Any] = {field.name: field.default for field in FIELDS} | {"path": "/healthz"}

# By text setting: the first character, the others, and refused texts.
TEXTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "path": ("/", "a", ("", "healthz", "/a b", "/a\n", "/é")),
    "host": ("a", "a", ("", "a b", "a\r\n", "a/b")),
    "tls_server_name": ("a", "a", ("", "10.0.0.1", "a:443", "a\n", "*.example.org")),
    "grpc_service": ("a", "a", ("a b", "a\n", "a:b")),
}

# By kind, a value of another one.
OF_ANOTHER_KIND: dict[str, Any] = {
    "text": 7, "number": "1", "whole number": "1", "flag": "true", "statuses": "200",
}  # fmt: skip


def complete(**changes: Any) -> dict[str, Any]:
    """Return a check with these changes; settings that they need come with them."""
    if changes.get("grpc_service") is not None:
        changes.setdefault("path", None)
    if changes.get("tls_server_name") is not None:
        changes.setdefault("tls", True)
    return BASE | changes


def accepted() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the subject of each accepted check, and the check."""
    yield "the defaults", complete()
    for field in FIELDS:
        match field.kind:
            case "text":
                first, other, _ = TEXTS[field.name]
                yield (
                    f"{field.name}: the longest",
                    complete(**{field.name: first + other * (field.longest - 1)}),
                )
                shortest = "" if field.name == "grpc_service" else first
                yield f"{field.name}: the shortest", complete(**{field.name: shortest})
            case "number" | "whole number":
                yield f"{field.name}: the lowest", complete(**{field.name: _number(field, field.lowest)})
                yield f"{field.name}: the highest", complete(**{field.name: _number(field, field.highest)})
            case "statuses":
                both = [_number(field, field.lowest), _number(field, field.highest)]
                yield "statuses: the lowest and the highest", complete(statuses=both)
            case "flag":
                yield (
                    f"{field.name}: not its default",
                    complete(tls=True, tls_server_name="a") | {field.name: not field.default},
                )
    yield "tls without a name, by the host", complete(tls=True, host="shop.example.org:8443")
    yield "tls without a name, unverified", complete(tls=True, tls_verify=False)


def refused() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the mistake of each refused check, the reason of the refusal, and the check."""
    for field in FIELDS:
        wrong = OF_ANOTHER_KIND[field.kind]
        yield f"{field.name}: of another kind", "type", complete(**{field.name: wrong})
        match field.kind:
            case "text":
                first, other, texts = TEXTS[field.name]
                for text in (first + other * field.longest, *texts):
                    yield f"{field.name}: {text[:20]!r}", "range", complete(**{field.name: text})
            case "number" | "whole number":
                for about, value in _beyond(field):
                    yield f"{field.name}: {about}", "range", complete(**{field.name: value})
            case "statuses":
                yield "statuses: an empty list", "range", complete(statuses=[])
                for about, value in _beyond(field):
                    yield f"statuses: {about}", "range", complete(statuses=[200, value])
    yield "neither path nor grpc_service", "missing", complete(path=None)
    yield "path and grpc_service", "range", complete(grpc_service="", path="/healthz")
    yield "statuses and grpc_service", "range", complete(grpc_service="", statuses=[200])
    yield "tls and grpc_service", "range", complete(grpc_service="", tls=True)
    yield "tls_server_name without tls", "range", complete(tls_server_name="a", tls=False)
    yield "tls_verify without tls", "range", complete(tls_verify=False)
    yield "tls without a name", "range", complete(tls=True)
    yield "tls with an address for a name", "range", complete(tls=True, host="10.0.0.1")


def _number(field: CheckField, value: float) -> float:
    return value if field.kind == "number" else int(value)


def _beyond(field: CheckField) -> tuple[tuple[str, float], tuple[str, float]]:
    step = field.lowest / 100 if field.kind == "number" else 1
    return (
        ("below the lowest", round(_number(field, field.lowest) - step, 6)),
        ("above the highest", round(_number(field, field.highest) + step, 6)),
    )


def _described(field: CheckField) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    if field.kind == "text":
        bounds = {"pattern": field.pattern, "longest": field.longest}
    elif field.kind != "flag":
        bounds = {"lowest": field.lowest, "highest": field.highest}
    return {
        "name": field.name, "kind": field.kind, "default": field.default, "always_sent": field.always_sent,
        **bounds,
    }  # fmt: skip


def text() -> str:
    """Return the content of the file."""
    parts = {
        "fields": [_described(field) for field in check_schema.FIELDS],
        "accepted": [{"about": about, "check": check} for about, check in accepted()],
        "refused": [{"about": about, "reason": reason, "check": check} for about, reason, check in refused()],
    }
    lists = ",\n".join(
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]"
        for name, rows in parts.items()
    )
    return f'{{\n "about": {json.dumps(ABOUT)},\n{lists}\n}}\n'


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
