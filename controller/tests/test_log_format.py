"""Lines of the log, for a person and for a program."""

import json
import logging

from steelyard_controller.log_format import JsonLine, TextLine


def _record(message: str, **fields: object) -> logging.LogRecord:
    made = {
        "name": "steelyard",
        "levelname": "WARNING",
        "msg": message,
        "created": 1_790_000_000.25,
        "msecs": 250.0,
    }
    return logging.makeLogRecord(made | fields)


def test_a_line_has_time_level_fields_and_sentence() -> None:
    line = TextLine().format(_record("web: drained", event="declared", upstream="web", what="a b"))
    assert line == '2026-09-21T14:13:20.250Z WARNING event=declared upstream=web what="a b" web: drained'


def test_what_came_from_the_network_makes_no_second_line() -> None:
    assert "\n" not in TextLine().format(_record("refused: x\n2026 ERROR forged", source="a\nb"))


def test_a_json_line_has_the_fields_beside_the_message() -> None:
    assert json.loads(JsonLine().format(_record("leading now", event="leading", term=3))) == {
        "at": "2026-09-21T14:13:20.250Z",
        "level": "warning",
        "event": "leading",
        "term": 3,
        "message": "leading now",
    }


def test_a_traceback_is_kept() -> None:
    try:
        raise ValueError("oh")
    except ValueError as error:
        trace = (type(error), error, error.__traceback__)
    assert "ValueError: oh" in TextLine().format(_record("failed", exc_info=trace))
    assert "ValueError: oh" in json.loads(JsonLine().format(_record("failed", exc_info=trace)))["trace"]
