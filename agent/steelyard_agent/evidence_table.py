"""Evidence as a table for a person: the sources of each figure.

Pure. `steelyard-agent --explain` prints it, so that an operator can check it against `top`.
"""

from collections.abc import Iterable, Sequence

from steelyard_agent.evidence import Evidence, Quantity

COLUMN_TITLES = ("indicator", "value", "numerator", "denominator", "source")

# Powers of 1024, as the kernel's own files and `docker stats` count.
BINARY_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def render(evidence: Iterable[Evidence]) -> str:
    """Return a table of one row for each figure, with its note below it."""
    rows = [COLUMN_TITLES]
    notes: list[str] = [""]
    for one in evidence:
        sources = one.sources or ("-",)
        rows.append(
            (one.indicator, _value(one), _quantity(one.numerator), _quantity(one.denominator), sources[0])
        )
        notes.append(one.note if len(sources) == 1 else "")
        for last, source in ((source is sources[-1], source) for source in sources[1:]):
            rows.append(("", "", "", "", source))
            notes.append(one.note if last else "")
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMN_TITLES) - 1)]
    lines = []
    for row, note in zip(rows, notes, strict=True):
        lines.append(_line(row, widths))
        if note:
            lines.append(f"{' ' * (widths[0] + 2)}{note}")
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers, source = row
    cells = [
        first.ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)),
    ]
    return "  ".join([*cells, source]).rstrip()


def _value(one: Evidence) -> str:
    if one.indicator in {"scope", "register"}:
        return ""
    if one.value is None:
        return "null"
    return f"{one.value:.4g}" if one.denominator is None else f"{one.value:.1%}"


def _quantity(quantity: Quantity | None) -> str:
    if quantity is None:
        return "-"
    amount, unit = quantity.amount, quantity.unit
    if not unit.startswith("bytes"):
        return f"{amount:.4g} {unit}"
    power = 0
    while abs(amount) >= 1024 and power < len(BINARY_PREFIXES) - 1:
        amount, power = amount / 1024, power + 1
    return f"{amount:.4g} {BINARY_PREFIXES[power]}B{unit.removeprefix('bytes')}"
