"""The presentation of a soak: the line while it runs, the table, the plot, the command line."""

import argparse
from pathlib import Path

import pytest
from PIL import Image
from steelyard_resilience.soak import page as table
from steelyard_resilience.soak.command import add_parser
from steelyard_resilience.soak.leaks import Check, Growth, Row, Verdict
from steelyard_resilience.soak.plot import panels, plot
from steelyard_resilience.soak.readings import MASTER, WORKER, Reading, Soaked
from steelyard_resilience.soak.timetable import Plan

PLAN = Plan(seconds=120.0)
LEAK = Growth(begin=6e6, end=9e6, trend=3.1e6, span_s=60.0)


def reading(process: str, pid: int, at_s: float) -> Reading:
    return Reading(
        at_s=at_s,
        process=process,
        pid=pid,
        private_bytes=8 << 20,
        descriptors=20 + int(at_s / 10),
        threads=1,
    )


def run(**members: object) -> Soaked:
    processes = {
        MASTER: 1,
        WORKER: 2,
        "controller-1": 3,
        "controller-2": 4,
        "agent-1": 5,
        "agent-2": 6,
        "server-1": 7,
    }
    defaults: dict[str, object] = {
        "seconds": PLAN.seconds,
        "readings": [
            reading(name, pid, at_s) for at_s in (0.0, 60.0, 119.0) for name, pid in processes.items()
        ]
        + [reading(WORKER, 8, 119.0)],
        "sent": 23_800,
        "failures": {},
        "reloads": (70.0,),
        "steps": 119,
        "refused": (),
        "ending": None,
    }
    return Soaked(**(defaults | members))  # type: ignore[arg-type]


def verdict(bound: float) -> Verdict:
    return Verdict(
        rows=(Row(process=WORKER, figure="private_bytes", lives=2, growth=LEAK, bound=bound),),
        checks=(Check(requirement="every request is answered", finding="0 of 23,800 failed", passed=True),),
    )


def test_a_leak_is_a_line_with_its_size_its_rate_and_its_bound() -> None:
    text = table.page(run(), verdict(512 * 1024), PLAN, {"Date": "today"}, "plots/soak.png")
    line = next(line for line in text.splitlines() if WORKER in line)
    fields = [field.strip() for field in line.strip("|").split("|")]
    assert fields == [
        "nginx worker (worst of 2)", "private memory", "5.7 MB", "8.6 MB", "+177.4 MB/h", "+3,027 kB",
        "+512 kB", "8.5 kB/s", "FAIL",
    ]  # fmt: skip
    assert "FAIL: 1 of the figures" in text.splitlines()[0]
    assert "](plots/soak.png)" in text
    assert "- Date: today" in text


def test_the_first_line_reports_a_pass() -> None:
    text = table.page(run(), verdict(4e6), PLAN, {}, None)
    assert text.splitlines()[0] == (
        "**1:59 minutes, 23,800 requests, 0 failed, 119 steps of churn, 1 reloads; PASS: nothing leaked**"
    )


def test_a_process_that_was_not_judged_is_named() -> None:
    rows = (Row(process="agents", figure="descriptors", lives=0, growth=None, bound=8),)
    text = table.page(run(), Verdict(rows=rows, checks=()), PLAN, {}, None)
    assert "FAIL: no process lived 30 s" in text


def test_an_interrupted_run_has_no_verdict() -> None:
    assert table.summary(run(interrupted=True), verdict(4e6)).endswith("; interrupted")


def test_progress_shows_time_and_failures() -> None:
    assert table.describe(run(failures={"502": 3})) == "1:59 of 2:00 · 23,800 requests, 3 failed · 119 steps"
    assert table.describe(run(refused=("drain: 503",))).endswith("119 steps, 1 REFUSED")


def test_the_plot_shows_what_each_judged_process_has_gained(tmp_path: Path) -> None:
    rows = panels(run(), PLAN)
    assert [[panel.title for panel in row] for row in rows] == [
        [f"{who}: {what}" for who in ("nginx", "controllers", "agents", "demo servers")]
        for what in ("private memory, MB", "descriptors")
    ]
    # The worker of the last reload was never judged.
    assert [line.label for line in rows[0][0].series if line.label] == [MASTER, WORKER]
    assert [line.label for line in rows[0][2].series if line.label] == ["agents"] * 2
    # The pale line is the whole life, from before the warm-up's end; the other is the judged part.
    assert [line.y for line in rows[1][1].series] == [[-6.0, 0.0, 5.0], [0.0, 5.0]] * 2
    bounds = [[rule.at for rule in panel.rules if rule.axis == "y"] for row in rows for panel in row]
    assert bounds == [[1], [2], [2], [2], [32], [8], [8], [24]]
    assert [rule.at for rule in rows[1][3].rules if rule.axis == "x"] == [70 / 60]
    plot(tmp_path / "soak.png", run(), PLAN)
    with Image.open(tmp_path / "soak.png") as picture:
        assert picture.size[0] > 1000


def test_a_run_that_ended_at_once_can_be_drawn(tmp_path: Path) -> None:
    plot(tmp_path / "soak.png", run(readings=[], reloads=()), PLAN)
    assert (tmp_path / "soak.png").exists()


@pytest.mark.parametrize("arguments", [["--seconds", "89"], ["--seconds", "9000"]])
def test_a_soak_too_short_to_judge_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["soak", *arguments])
    assert "a number of" in capsys.readouterr().err
