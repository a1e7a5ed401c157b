"""The log's format: text lines for a person, or JSON lines with the event's fields.

A caller logs a sentence. The fields to filter by are in `extra`: `event` (a
word), `upstream`, `term` and others.
"""

import json
import logging
import sys
import time
from typing import Literal

# The attributes of every record; all others are from `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class TextLine(logging.Formatter):
    """`2026-11-21T22:21:34.632Z INFO event=leading term=3 leading in term 3: web`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback if there is one."""
        fields = "".join(f"{name}={_shown(value)} " for name, value in _fields(record).items())
        # Text from the network may contain line breaks, which would split the line.
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{_at(record)} {record.levelname} {fields}{message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLine(logging.Formatter):
    """One JSON object a line: `at`, `level`, `message`, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is its member `trace`."""
        document = {"at": _at(record), "level": record.levelname.lower(), **_fields(record)}
        document["message"] = record.getMessage()
        if record.exc_info:
            document["trace"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def install(level: str, form: Literal["text", "json"]) -> None:
    """Write the log to standard error, from `level` up; silence libraries that log every request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if form == "json" else TextLine())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _at(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _shown(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(mark in text for mark in ' "=\n\r') else text
