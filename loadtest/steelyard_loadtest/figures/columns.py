"""results.csv and servers.csv: their columns, in their order, and what those are.

A figure that is not known is empty, one without an end is `inf`; a column that
holds several has them as `name=value` with blanks between.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from steelyard_loadtest.figures.trial_figures import TrialFigures
from steelyard_loadtest.measurements.trials import Measured, Observed, Trial
from steelyard_loadtest.reporting.csv_text import csv_text, names_of

DIGITS = 6

DEFINITIONS: Mapping[str, tuple[str, str, str]] = tomllib.loads(
    Path(__file__).with_name("definitions.toml").read_text("utf-8")
)
"""By column of results.csv: its name in the page's tables, its unit, and what it is."""

_TRIAL = names_of(Trial)
COLUMNS = (*_TRIAL, "generator", *(column for column in DEFINITIONS if column not in _TRIAL))

SERVERS_COLUMNS = (*_TRIAL, *names_of(Observed, without=["interval_s"]))


def results_csv(figures: Iterable[TrialFigures]) -> str:
    """Return results.csv, a line a trial."""
    return csv_text(map(_row, figures), COLUMNS, digits=DIGITS)


def servers_csv(measured: Iterable[Measured]) -> str:
    """Return servers.csv, a line a server and second of each trial."""
    rows = (
        asdict(entry.trial) | asdict(seen) | {"t_s": f"{seen.t_s:.3f}"}
        for entry in measured
        for seen in entry.observed
    )
    return csv_text(rows, SERVERS_COLUMNS, digits=DIGITS)


def _row(one: TrialFigures) -> dict[str, object]:
    return {
        **asdict(one.measured.trial),
        "generator": one.measured.generator,
        "seconds": one.measured.outcome.seconds,
        **one.metrics,
        "shares": _text(one.shares),
        "utilizations": _text(one.utilizations),
        "phases_p99_ms": _text({name: ms for name, ms in one.phases_p99_ms.items() if ms is not None}),
        "failure_kinds": _text(one.measured.outcome.kinds),
    }


def _text(value: Mapping[str, float]) -> str:
    return " ".join(
        f"{name}={f'{part:.{DIGITS}g}' if isinstance(part, float) else part}" for name, part in value.items()
    )
