"""Requests with a number each, and whether an answer is the one to that number. Pure."""

import json

from steelyard_loadtest.lab.generators.questions import get

OK = 200

CROSSED = "crossed"
"""A whole answer to another request: worse than none."""

GARBLED = "garbled"
"""A whole answer that is not what the demo server says."""


class Numbered:
    """Asks the demo server for its number back."""

    def __init__(self, host: str, path: str) -> None:
        self._host, self._path = host, path

    def request(self, number: int) -> bytes:
        """Return the request with this number."""
        return get(self._host, f"{self._path}?echo={number}")

    def failure(self, number: int, status: int, body: bytes) -> str:
        """Return "" for a 200 whose body has this number; a redirect or an empty answer is a failure too."""
        if status != OK:
            return str(status)
        try:
            echo = json.loads(body)["echo"]
        except (ValueError, KeyError, TypeError):
            return GARBLED
        return "" if echo == str(number) else CROSSED
