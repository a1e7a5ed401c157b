"""A declared health check has the bounds of docs/contract/check.json, as the weight table and nginx have."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from steelyard_controller.declarations.upstream import Check

EXAMPLES = json.loads((Path(__file__).parents[3] / "docs/contract/check.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES["accepted"], ids=lambda example: example["about"])
def test_what_is_within_the_bounds_is_accepted(example: dict[str, Any]) -> None:
    check = Check.model_validate_json(json.dumps(example["check"]), strict=True)
    assert check.model_dump() == example["check"]


@pytest.mark.parametrize("example", EXAMPLES["refused"], ids=lambda example: example["about"])
def test_what_is_beyond_a_bound_is_refused(example: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Check.model_validate_json(json.dumps(example["check"]), strict=True)


def test_the_defaults_are_those_of_the_contract() -> None:
    defaults = {field["name"]: field["default"] for field in EXAMPLES["fields"]}
    assert Check.model_validate({"path": "/"}).model_dump() == {**defaults, "path": "/"}
