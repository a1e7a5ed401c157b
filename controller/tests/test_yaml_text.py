"""Numbers in YAML that people and Helm write."""

import pytest
from steelyard_controller import yaml_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-06", 1e-06), ("1e6", 1e6), ("-2.5E+3", -2500.0), (".5e1", 5.0), ("1.e2", 100.0),
        ("1e", "1e"), ("e5", "e5"), ("1e5x", "1e5x"), ('"1e5"', "1e5"), ("0x1e5", 0x1E5), ("10", 10),
    ],
)  # fmt: skip
def test_a_number_with_an_exponent_needs_no_point(text: str, value: object) -> None:
    read = yaml_text.parse(f"H: {text}").value
    assert read == {"H": value}
    assert isinstance(read, dict)
    assert type(read["H"]) is type(value)
