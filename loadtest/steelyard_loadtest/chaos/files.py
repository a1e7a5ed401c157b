"""Writes a run: outcomes as JSON and CSV, every request and every look as compressed CSV (I/O)."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from steelyard_loadtest.chaos.records import Gathered
from steelyard_loadtest.lab.generators.tally import Request

OUTCOMES = (
    "fault", "group", "began_s", "undone_s", "until_s", "sent", "failed", "failed_at_most", "p50_ms",
    "worst_ms", "worst_at_most_ms", "recover_s", "recover_within_s", "rung", "rung_at_worst", "passed",
    "broken",
)  # fmt: skip
REQUESTS = ("due_s", "latency_ms", "failure")
LOOKS = ("at_s", "rung", "not_well")


def write(out: Path, gathered: Gathered, conditions: Mapping[str, str]) -> list[Path]:
    """Write everything into a folder that exists, and return the files; 0 s is the first request."""
    zero_s = first_s(gathered.requests)
    outcomes = [_row(gathered, position, zero_s) for position in range(len(gathered.outcomes))]
    document = {
        "conditions": dict(conditions),
        "interrupted": gathered.interrupted,
        "outcomes": [asdict(outcome) | {"passed": outcome.passed} for outcome in gathered.outcomes],
    }
    (out / "outcomes.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    requests = (
        [f"{one.due_s - zero_s:.6f}", f"{one.latency_ms:.3f}", one.failure] for one in gathered.requests
    )
    looks = ([f"{look.at_s - zero_s:.3f}", look.rung, look.not_well] for look in gathered.looks)
    (out / "outcomes.csv").write_text(_csv(OUTCOMES, outcomes), encoding="utf-8")
    _compressed(out / "requests.csv.gz", _csv(REQUESTS, requests))
    _compressed(out / "looks.csv.gz", _csv(LOOKS, looks))
    return [out / name for name in ("outcomes.json", "outcomes.csv", "requests.csv.gz", "looks.csv.gz")]


def first_s(requests: Sequence[Request]) -> float:
    """Return when the first request was due; 0 when there is none."""
    return min((one.due_s for one in requests), default=0.0)


def _row(gathered: Gathered, position: int, zero_s: float) -> list[object]:
    trial, outcome = gathered.trials[position], gathered.outcomes[position]
    bound = outcome.bound
    moments = [f"{moment_s - zero_s:.3f}" for moment_s in (trial.began_s, trial.undone_s, trial.until_s)]
    return [
        outcome.fault, outcome.group, *moments, outcome.sent, outcome.failed, bound.failed,
        _number(outcome.p50_ms), _number(outcome.worst_ms), bound.worst_ms, _number(outcome.recover_s),
        bound.recover_s, outcome.rung, bound.rung, "yes" if outcome.passed else "no",
        "; ".join(outcome.broken),
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _csv(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _compressed(file: Path, text: str) -> None:
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
