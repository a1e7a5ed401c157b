"""Numbers of settings: ASCII digits within bounds, and nothing else that Python takes for a number."""

import pytest
from steelyard_protocol import setting_values

NO_NUMBERS = (
    "", " ", "nan", "inf", "-inf", "1e999", "-1e999", "1_0", "٣", "５", "0x5", "abc", "5 5", "1e", ".",
    "5\x00", "\u20285", "9" * 5000,
)  # fmt: skip


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_another_text_is_no_number_within_bounds(text: str) -> None:
    with pytest.raises(ValueError, match=r"^give seconds within 0\.\.1e\+06$"):
        setting_values.number("seconds", 0, 1e6)(text)
    with pytest.raises(ValueError, match=r"^give seconds within 0\.\.9, without a point$"):
        setting_values.whole_number("seconds", 0, 9)(text)


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5.0), ("+5", 5.0), ("5.", 5.0), (".5", 0.5), ("1E3", 1000.0), (" 5\n", 5.0)]
)
def test_numbers(text: str, number: float) -> None:
    assert setting_values.number("seconds", 0, 1e6)(text) == number


def test_whole_numbers() -> None:
    parse = setting_values.whole_number("seconds", -5, 10**18 - 1)
    assert [parse(text) for text in ("-5", "+7", " 8\n", "9" * 18)] == [-5, 7, 8, 10**18 - 1]
