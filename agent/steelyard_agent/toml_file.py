"""The TOML file of the agent's settings: its keys are the flags' names with underscores. Pure.

    upstream = "web"
    memcached = ["10.0.0.5:11211", "10.0.0.6:11211"]
    net_capacity = 125_000_000

`indicators.declared` reads the tables without a flag, such as [[indicator]].
"""

import re
from collections.abc import Sequence

from steelyard_protocol import toml_text
from steelyard_protocol.program_settings import ParsedFile

# A line that begins with `key =`, `[key]` or `[[key]]`.
_KEY = re.compile(r"\s*\[{0,2}\s*(?:\"([^\"]+)\"|'([^']+)'|([A-Za-z0-9_-]+))\s*[=\]]")


def parse(text: str) -> ParsedFile:
    """Return the content of a file; raise ValueError."""
    values = toml_text.parse(text)

    def line_of(place: Sequence[str | int]) -> int | None:
        # tomllib keeps no positions. Settings come before the first table: the first line like the key
        # is its own, unless a text of several lines quotes one.
        for number, line in enumerate(text.splitlines(), 1):
            match = _KEY.match(line)
            if match and place[0] in match.groups():
                return number
        return None

    return ParsedFile(values=values, line_of=line_of)
