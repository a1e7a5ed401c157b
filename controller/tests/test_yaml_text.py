"""YAML that people and Helm write: numbers, names, keys that occur twice, aliases."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "web: 1\napi: 2\nweb: 3",
            "line 3: the key web occurs twice in one mapping, first in line 1: leave one",
        ),
        ('web: 1\n"web": 2', "line 2: the key web occurs twice"),
        (
            "a: &a {x: 1}\nb: &b {y: 2}\nc:\n  <<: *a\n  <<: *b",
            r"line 5: the key << occurs twice .*, first in line 4: merge a list, <<: \[\*one, \*other\]",
        ),
        (
            "law: paper\nparameters: {H: 0.3, H: 0.9}",
            "line 2: the key H occurs twice in one mapping: leave one",
        ),
        ("- a: {b: {c: 1, c: 1}}", "line 1: the key c occurs twice"),
        ("a: !!set {x, x}", "line 1: the key x occurs twice"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a", "line 4: the key << occurs twice"),
        ("a:\n  no: 1", 'line 2: the key no is read as true or false: put it in quotes, "no"'),
        ("1.50: {}", 'line 1: the key 1.50 is read as a number: put it in quotes, "1.50"'),
        ("1e5: {}", "line 1: the key 1e5 is read as a number"),
        ("~: {}", "line 1: the key ~ is read as null"),
        ("2026-01-01: {}", "line 1: the key 2026-01-01 is read as a date"),
        ("!mine a: {}", "line 1: the key a is read as another value than a text"),
        ("[a, b]: {}", "line 1: a list or mapping is no key: write a text"),
        ("a: 1\n---\na: 2", "line 2: a second document begins: put it into a file of its own"),
        ("a:\n\tb: 1", "line 2: it is not YAML: .* start any token: indent with spaces"),
        ("a: *b", "line 1: it is not YAML: found undefined alias 'b'"),
        ("a: &a\n  b: [*a]", "line 1: an alias stands within its own anchor"),
        ("&a {<<: *a}", "line 1: an alias stands within its own anchor"),
        ("H: 010", "line 1: it is not YAML: 010 would be a number in base 8 or 60: write it in base 10"),
        ("\nH: 1:30", "line 2: it is not YAML: 1:30 would be a number in base 8 or 60"),
    ],
)
def test_a_text_that_may_be_read_in_two_ways_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        yaml_text.parse(text)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "---\n...\n"])
def test_an_empty_text_has_no_value(text: str) -> None:
    assert yaml_text.parse(text).value is None


def test_a_mapping_overrides_what_it_merges_and_its_line_is_its_own() -> None:
    document = yaml_text.parse("a: &a\n  x: 1\n  y: 2\nb:\n  <<: *a\n  x: 3")
    assert document.value == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}}
    assert [document.line_of(("b", key)) for key in "xy"] == [6, 3]


@pytest.mark.parametrize("part", ["{{<<: [{}]}}", "[{}]"])
def test_aliases_that_multiply_their_content_are_refused(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [
        f"a{level}: &a{level} {part.format(', '.join([f'*a{level - 1}'] * 3))}" for level in range(1, 4)
    ]
    text = "\n".join(lines)
    assert yaml_text.parse(text).value is not None
    monkeypatch.setattr(yaml_text, "MOST_REPEATED", 20)
    with pytest.raises(ValueError, match="its aliases repeat more than 20 values"):
        yaml_text.parse(text)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), each, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=60)
@given(PLAIN)
@example(
    {"1e5": "1e5", "no": "no", "010": "010", "1:30": "1:30", "<<": "<<", "=": "=", "": "", "~": "a\n\t\x85b"}
)
@example([[1], [1]])
def test_a_document_is_read_as_it_was_written(document: object) -> None:
    read = yaml_text.parse(yaml_text.dump(document)).value
    assert read == document
    assert repr(read) == repr(document)
