"""docs/contract/check.json, which the Lua tests load too, and the weight table's model of a check."""

import json
from typing import Any

import pytest
from steelyard_protocol import weight_table
from steelyard_protocol.wire import Refused

from . import check_examples

EXAMPLES = json.loads(check_examples.FILE.read_text(encoding="utf-8"))

TABLE = {
    "v": 1, "upstream": "web", "term": 1, "generation": 1, "issued_at_ms": 1, "law": "static",
    "picker": "vnswrr2", "reporters": [], "peers": [],
}  # fmt: skip


def decode(check: dict[str, Any]) -> weight_table.WeightTable | Refused:
    return weight_table.decode(json.dumps({**TABLE, "check": check}).encode())


def test_the_examples_are_those_of_the_schema() -> None:
    assert check_examples.FILE.read_text(encoding="utf-8") == check_examples.text()


@pytest.mark.parametrize("example", EXAMPLES["accepted"], ids=lambda example: example["about"])
def test_what_is_within_the_bounds_is_accepted(example: dict[str, Any]) -> None:
    table = decode(example["check"])
    assert not isinstance(table, Refused), table
    assert table.check == example["check"]


@pytest.mark.parametrize("example", EXAMPLES["refused"], ids=lambda example: example["about"])
def test_what_is_beyond_a_bound_is_refused(example: dict[str, Any]) -> None:
    table = decode(example["check"])
    assert isinstance(table, Refused)
    assert table.reason == example["reason"], table


@pytest.mark.parametrize("field", EXAMPLES["fields"], ids=lambda field: field["name"])
def test_a_table_may_lack_only_what_is_not_always_sent(field: dict[str, Any]) -> None:
    table = decode({name: value for name, value in check_examples.BASE.items() if name != field["name"]})
    if field["always_sent"]:
        assert isinstance(table, Refused)
        assert table.reason == "missing"
    elif field["name"] != "path":
        assert not isinstance(table, Refused), table
        assert table.check is not None
        assert table.check[field["name"]] == field["default"]
