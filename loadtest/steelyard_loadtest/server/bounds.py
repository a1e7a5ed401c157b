"""Numbers that flags take, within bounds: text in, a value or argparse's error out. Pure."""

import argparse
import math
import re
from collections.abc import Callable

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")

MOST_SHOWN = 40
"""A wrong value is repeated up to this length."""


def number(lowest: float, highest: float, unit: str, why: str = "") -> Callable[[str], float]:
    """Take a number of units within bounds; `why` ends the error's sentence."""

    def parse(text: str) -> float:
        # float() also reads 1_0, digits of other scripts, nan and inf.
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(
                f"a number of {unit} from {lowest:g} to {highest:g}{why}, not {text[:MOST_SHOWN]!r}"
            )
        return value

    return parse


def whole(lowest: int, highest: int, unit: str, why: str = "") -> Callable[[str], int]:
    """Take a whole number of units within bounds."""

    def parse(text: str) -> int:
        # Few digits, because int() refuses thousands of them with an error of its own.
        if not re.fullmatch(r"\s*[0-9]{1,15}\s*", text) or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"a whole number of {unit} from {lowest} to {highest}{why}, not {text[:MOST_SHOWN]!r}"
            )
        return int(text)

    return parse
