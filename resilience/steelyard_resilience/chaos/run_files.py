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

MOMENTS = ("began_s", "undone_s", "until_s")
"""Of a trial, by which a fault's requests and looks are found."""


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
        "outcomes": [
            asdict(one) | {"passed": one.passed} | {at: getattr(trial, at) - zero_s for at in MOMENTS}
            for trial, one in zip(run.trials, run.outcomes, strict=True)
        ],
    }
    return Page(
        text=lambda plots: page(run, conditions, plots["bounds"]),
        plots={"bounds": lambda file: plot(file, run.outcomes)},
        files={
            "outcomes.json": json_text(document),
            "requests.csv.gz": csv_text(run.requests, requests),
            "looks.csv.gz": csv_text(run.looks, looks),
        },
    )
