"""What a run leaves: its page, outcomes, requests and looks, each as a text, and its picture."""

from collections.abc import Mapping
from dataclasses import asdict

from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.reporting.csv_text import Field, csv_text
from steelyard_loadtest.reporting.publish import Page
from steelyard_loadtest.reporting.result_files import json_text

from steelyard_resilience.chaos.fault import Gathered, Look
from steelyard_resilience.chaos.page import page
from steelyard_resilience.chaos.plot import plot


def of(run: Gathered, conditions: Mapping[str, str]) -> Page:
    """Return what a run leaves in a folder or on a page; 0 s is the first request."""
    zero_s = run.first_s
    requests: list[Field[Request]] = [
        ("due_s", lambda one: f"{one.due_s - zero_s:.6f}"),
        ("latency_ms", lambda one: f"{one.latency_ms:.3f}"),
        "failure",
    ]
    looks: list[Field[Look]] = [("at_s", lambda look: f"{look.at_s - zero_s:.3f}"), "rung", "not_well"]
    document = {
        "conditions": dict(conditions),
        "interrupted": run.interrupted,
        "outcomes": [asdict(outcome) | {"passed": outcome.passed} for outcome in run.outcomes],
    }
    outcomes = _outcomes(run)
    return Page(
        text=lambda plots: page(run, conditions, plots["bounds"]),
        plots={"bounds": lambda file: plot(file, run.outcomes)},
        files={
            "outcomes.json": json_text(document),
            "outcomes.csv": csv_text(outcomes, list(outcomes[0])),
            "requests.csv.gz": csv_text(run.requests, requests),
            "looks.csv.gz": csv_text(run.looks, looks),
        },
    )


def _outcomes(run: Gathered) -> list[dict[str, object]]:
    return [
        {
            "fault": one.fault, "group": one.group,
            **{at: f"{getattr(trial, at) - run.first_s:.3f}" for at in ("began_s", "undone_s", "until_s")},
            "sent": one.sent, "failed": one.failed, "failed_at_most": one.bound.failed,
            "p50_ms": _figure(one.p50_ms),
            "worst_ms": _figure(one.worst_ms), "worst_at_most_ms": one.bound.worst_ms,
            "recover_s": _figure(one.recover_s), "recover_within_s": one.bound.recover_s,
            "rung": one.rung, "rung_at_worst": one.bound.rung,
            "passed": "yes" if one.passed else "no", "broken": "; ".join(one.broken),
        }
        for trial, one in zip(run.trials, run.outcomes, strict=True)
    ]  # fmt: skip


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
