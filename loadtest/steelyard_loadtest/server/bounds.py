"""Numbers that flags take, within bounds: text in, a value or argparse's error out. Pure."""

import argparse
import re
from collections.abc import Callable


def number(lowest: float, highest: float, unit: str, why: str = "") -> Callable[[str], float]:
    """Take a number of units within bounds; `why` ends the error's sentence."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(
                f"a number of {unit} from {lowest:g} to {highest:g}{why}, not {text!r}"
            )
        return value

    return parse


def whole(lowest: int, highest: int, unit: str, why: str = "") -> Callable[[str], int]:
    """Take a whole number of units within bounds."""

    def parse(text: str) -> int:
        # Few digits, because int() refuses thousands of them with an error of its own.
        if not re.fullmatch(r"\s*[0-9]{1,15}\s*", text) or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"a whole number of {unit} from {lowest} to {highest}{why}, not {text!r}"
            )
        return int(text)

    return parse
