"""TOML that people wrote: a key or table that occurs twice is named with its line and the remedy."""

import pytest
from steelyard_protocol import toml_text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\na = 2", 2),
        ("a = 1\n'a' = 2\n", 2),
        ("[a]\n\n[a]", 3),
        ("[a]\n[[a]]", 2),
        ("[[a]]\nb = 1\nb = 2", 3),
        ("a.b = 1\na = {c = 1}", 2),
        ("a = {b = 1}\na.c = 1", 2),
        ("a = {b = 1, b = 2}", 1),
    ],
)
def test_a_key_that_occurs_twice_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(
        ValueError, match=rf"\(at line {line}, .*\): a key or table occurs twice, leave one out$"
    ):
        toml_text.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "it is not TOML: Invalid value"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("1 2", "not TOML"),
    ],
)
def test_another_mistake_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        toml_text.parse(text)
    assert "twice" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_names_are_texts_however_they_look() -> None:
    assert toml_text.parse("no = 1\n1e5 = 2\n'1.50' = 3") == {"no": 1, "1e5": 2, "1.50": 3}
