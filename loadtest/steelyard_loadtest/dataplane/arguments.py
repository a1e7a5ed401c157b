"""What the benchmark's flags take: text in, a value or argparse's error out. Pure."""

import argparse

from steelyard_loadtest.dataplane.contenders import Contender, chosen

MOST_PEERS = 10_000
"""What one weight table in Memcached holds."""


def peer_counts(text: str) -> tuple[int, ...]:
    """Take numbers of servers, comma-separated; ascending out."""
    return tuple(sorted({_whole(part, 1, MOST_PEERS, "servers") for part in text.split(",")}))


def rounds(text: str) -> int:
    """Take a number of rounds; 0 leaves the part out."""
    return _whole(text, 0, 100, "rounds")


def seconds(text: str) -> int:
    """Take the length of one measurement."""
    return _whole(text, 1, 600, "seconds")


def connections(text: str) -> int:
    """Take wrk's number of connections."""
    return _whole(text, 1, 1000, "connections")


def contenders(text: str) -> tuple[Contender, ...]:
    """Take names of contenders, comma-separated."""
    try:
        return chosen([part.strip() for part in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _whole(text: str, lowest: int, highest: int, unit: str) -> int:
    if not text.strip().isdecimal() or not lowest <= int(text) <= highest:
        raise argparse.ArgumentTypeError(f"a whole number of {unit} from {lowest} to {highest}, not {text!r}")
    return int(text)
