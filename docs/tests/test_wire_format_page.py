"""docs/reference/wire-format.md has every member of the example messages, and every reason for a refusal."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from steelyard_protocol import wire

DOCS = Path(__file__).parents[1]
NAMED = set(re.findall(r"`(\w+)`", (DOCS / "reference/wire-format.md").read_text(encoding="utf-8")))

# Objects whose members are names of servers or metrics.
BY_NAME = ("further", "named_metrics", "loads")


def members(value: Any) -> Iterator[str]:
    """Yield the names of the members of a message, at every level."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            by_name = name in BY_NAME and isinstance(inner, dict)
            yield from members(list(inner.values()) if by_name else inner)
    elif isinstance(value, list):
        for each in value:
            yield from members(each)


@pytest.mark.parametrize("message", ["sample", "traffic", "weights", "head", "chunks", "upstreams"])
def test_every_member_of_an_accepted_example_is_on_the_page(message: str) -> None:
    examples = json.loads((DOCS / f"contract/{message}.json").read_text(encoding="utf-8"))["accepted"]
    values = [
        json.loads(text) if isinstance(text, str) else text
        for example in examples
        if not re.search(r"ignored|unknown|later minor", example["about"])
        for name, whole in example.items()
        if name in ("value", "head", "manifest", "chunks")
        for text in (whole if name == "chunks" else [whole])
    ]
    names = set(members(values))
    assert names
    assert names - NAMED == set()


def test_every_reason_for_a_refusal_is_on_the_page() -> None:
    assert [reason for reason in get_args(wire.Reason) if reason not in NAMED] == []
