"""The columns of results.csv and servers.csv, in their order, and a line of each. Pure.

A figure that is not known is empty, one without an end is `inf`; a column that
holds several has them as `name=value` with blanks between.
"""

from collections.abc import Mapping
from dataclasses import fields

from steelyard_loadtest.lab.figures.cell import CellFigures
from steelyard_loadtest.lab.records import Cell, Observed

COLUMNS = tuple(field.name for field in fields(CellFigures))

SERVERS_COLUMNS = (
    "scenario", "algorithm", "level", "repeat", "t_s", "server", "served", "share", "cpu_utilization",
)  # fmt: skip


def row(figures: CellFigures) -> list[str]:
    """Write a cell's figures as a line of results.csv, in the order of COLUMNS."""
    return [_text(getattr(figures, name)) for name in COLUMNS]


def servers_row(cell: Cell, observed: Observed) -> list[str]:
    """Write an observation as a line of servers.csv, in the order of SERVERS_COLUMNS."""
    return [
        cell.scenario,
        cell.algorithm,
        _text(cell.level),
        _text(cell.repeat),
        f"{observed.t_s:.3f}",
        observed.server,
        _text(observed.served),
        _text(observed.share),
        _text(observed.cpu_utilization),
    ]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_text(part)}" for name, part in value.items())
    return str(value)
