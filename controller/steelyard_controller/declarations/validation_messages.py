"""Messages for pydantic's errors about a declaration: the mistake in a field, and the remedy. Pure."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steelyard_protocol import check_schema, wire

from steelyard_controller.declarations.upstream import Blend, Check, Indicator, Peer, Upstream

_NAME = f"^{wire.NAME.pattern}$"

_FIELDS: Mapping[str, Sequence[str]] = {
    "": tuple(Upstream.model_fields),
    "peers": tuple(Peer.model_fields),
    "check": tuple(Check.model_fields),
    "blend": tuple(Blend.model_fields),
    "indicators": tuple(Indicator.model_fields),
}

_Problem = Callable[[Mapping[str, Any]], str]

_PROBLEMS: Mapping[str, _Problem] = {
    "missing": lambda _: "is missing: give it",
    "string_type": lambda _: "is not a text: put it in quotes",
    "float_type": lambda _: "is not a number: write it without quotes",
    "int_type": lambda _: "is not a whole number: write it without quotes and without a point",
    "float_parsing": lambda _: "is not a number",
    "int_parsing": lambda _: "is not a whole number",
    "int_from_float": lambda _: "is not a whole number",
    "finite_number": lambda _: "is not a finite number",
    "bool_type": lambda _: "is neither true nor false",
    "list_type": lambda _: "is not a list: write it in [ ]",
    "dict_type": lambda _: "is not an object: write it in { }",
    "model_type": lambda _: "is not an object: write it in { }",
    "model_attributes_type": lambda _: "is not an object: write it in { }",
    "too_short": lambda of: f"has too few entries: give at least {of['min_length']}, or null",
    "greater_than": lambda of: f"must be more than {of['gt']:g}",
    "greater_than_equal": lambda of: f"must be at least {of['ge']:g}",
    "less_than": lambda of: f"must be less than {of['lt']:g}",
    "less_than_equal": lambda of: f"must be at most {of['le']:g}",
    "literal_error": lambda of: f"must be one of {of['expected']}".replace(" or ", ", ").replace("'", ""),
}


def message(error: Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """Return the message of one error; `fields` are those of the document, None for a declaration's own."""
    kind, about = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return _unknown(error["loc"], fields)
    if kind == "string_pattern_mismatch":
        return f"{_quoted(error.get('input'))} {_pattern(about.get('pattern', ''))}"
    if kind in _PROBLEMS:
        problem = _PROBLEMS[kind](about)
        return problem if kind == "missing" else f"{_quoted(error.get('input'))} {problem}"
    return str(error["msg"])


def _unknown(location: Sequence[str | int], fields: Sequence[str] | None) -> str:
    if fields is None:
        # Other parts are numbers, or names of upstreams and indicators.
        parts = (str(part) for part in reversed(location[:-1]))
        fields = next((_FIELDS[part] for part in parts if part in _FIELDS), _FIELDS[""])
    near = difflib.get_close_matches(str(location[-1])[:64], fields, n=1)
    hint = f"; did you mean {near[0]}? There are: " if near else "; there are: "
    return f"there is no such field{hint}{', '.join(fields)}"


def _pattern(pattern: str) -> str:
    if pattern == _NAME:
        return (
            "is no name: use 1 to 64 letters, digits, dots, underscores and dashes, a letter or digit first"
        )
    if "argument" in pattern:
        return "is no hash key: write address, uri, header:NAME, cookie:NAME or argument:NAME"
    if pattern.startswith("^(/"):
        return "is no path: begin it with / and leave out spaces"
    if pattern.endswith(f"{check_schema.SERVER_NAME.pattern})$"):
        return "is no host name: write it without port, as in example.org"
    return "is not written as it must be"


def _quoted(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = str(type(value).__name__)
    return text if len(text) <= 80 else f"{text[:77]}…"
