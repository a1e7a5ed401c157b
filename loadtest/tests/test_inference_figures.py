"""The figures of a trial before engines, and its page."""

from dataclasses import replace
from pathlib import Path

import pytest
from steelyard_loadtest.inference.contenders import BY_NAME, ROUTERS, SIZES, SLOWED, scenario
from steelyard_loadtest.inference.figures import EngineReading, Run, Stream, figures, rows
from steelyard_loadtest.inference.page import page
from steelyard_loadtest.measurements.trials import Trial
from steelyard_loadtest.reporting.publish import write_page

TRIAL = Trial(scenario="inference", algorithm="nginx-rr", level=0.8, repeat=1)


def reading(at_s: float, engine: str, done: int) -> EngineReading:
    counts = {"prompt_tokens": 10, "cached_tokens": 2, "computed_tokens": 8, "requests": 1}
    queue_s = 4.0 if engine == SLOWED and at_s > 60 else 1.0
    values = {"queue_s": queue_s, "lost_s": 0.0, **{name: each * done for name, each in counts.items()}}
    return EngineReading(at_s=at_s, engine=engine, values=values)


def stream(due_s: float, ttft_s: float, failure: str = "") -> Stream:
    ended_s = due_s + ttft_s + 0.9
    return Stream(due_s=due_s, ttft_s=ttft_s, ended_s=ended_s, output_tokens=10, failure=failure)


RUN = Run(
    trial=TRIAL, compression=20, begin_s=10, end_s=110, slowed=SLOWED, sizes=SIZES, balancer_cpu_s=0.02,
    streams=(
        stream(9, 99), stream(10, 1), stream(20, 2), stream(30, 9), stream(110, 99),
        stream(40, 0.1, "429"), stream(50, 60, "timeout"),
    ),
    readings=[
        reading(at_s, name, int(at_s) * size)
        for at_s in (5.0, 10.0, 35.0, 85.0, 110.0, 115.0)
        for name, size in SIZES.items()
    ],
)  # fmt: skip


def test_only_good_answers_that_were_due_in_the_counted_part_have_times() -> None:
    known = figures(RUN)
    assert [known[f"ttft_p{part}_s"] for part in (50, 90, 99)] == [2, 9, 9]
    assert known["between_p50_s"] == pytest.approx(0.1)
    assert (known["good_per_s"], known["asked_per_s"]) == (2 / 100, 5 / 100)
    assert (known["failed"], known["refused"], known["balancer_cpu_ms"]) == (2, 1, 4)


def test_what_engines_did_is_what_their_totals_grew_by() -> None:
    known = figures(RUN)
    assert known["hits"] == pytest.approx(0.2)
    assert [known[f"share_{name}"] for name in SIZES] == [1 / 6, 1 / 6, 1 / 3, 1 / 3]
    assert len({round(known[f"cost_{name}"] or 0, 9) for name in SIZES}) == 1
    assert known["queue_ratio"] == 4


def test_a_row_is_the_median_of_its_trials_and_rows_keep_the_contenders_order() -> None:
    # Asked again and again, and refused.
    slower = [
        replace(
            RUN, trial=replace(TRIAL, repeat=repeat), streams=[*RUN.streams, *[stream(60, 0, "429")] * times]
        )
        for repeat, times in ((2, 1), (3, 4))
    ]
    other = replace(RUN, trial=replace(TRIAL, algorithm="envoy-bounded"))
    found = rows([other, RUN, *slower], list(BY_NAME))
    assert [(row.algorithm, row.medians["failed"]) for row in found] == [
        ("nginx-rr", 3),
        ("envoy-bounded", 2),
    ]


def test_the_page_has_a_row_each_and_says_who_is_missing_and_why(tmp_path: Path) -> None:
    report = page([RUN], {"sglang-cache_aware": "not installed"}, {"Date": "today"}, "a trace")
    write_page(report, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| nginx round robin | 2.00 | 9.00 | 9.00 | 100 | 100 | 0.02 | 2 | 1 | 20.0 | 4.00 |" in text
    assert "sglang-router cache_aware was not measured: not installed" in text
    assert "Requests: a trace. Time passes 20 times as fast," in text
    assert (tmp_path / "ttft.png").exists()
    assert (tmp_path / "queues.png").exists()


def test_contenders_with_weights_get_the_sizes_and_ours_is_configured_as_the_example() -> None:
    assert scenario(("nginx-rr",), quick=True).weights == SIZES
    assert {one.weights for one in BY_NAME.values() if one.program not in ROUTERS} == {"true"}
    example = (Path(__file__).parents[2] / "openresty/examples/inference.conf").read_text(encoding="utf-8")
    ours = BY_NAME["steelyard-prefix"]
    assert all(name in example for name in ours.options)
    assert ours.options["max_conns"] == 64
    assert "max_conns = 64," in example
    assert "queue = { size = 256, timeout_s = 20 }" in example
