"""The lines, lists and pages of a made-up run."""

import gzip
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.publish import fill_page, write_page
from steelyard_resilience.chaos.command import NAME, left_of
from steelyard_resilience.chaos.fault import Bound, Fault, Gathered, Look, Outcome, Trial
from steelyard_resilience.chaos.faults.catalogue import FAULTS, chosen, listed
from steelyard_resilience.chaos.outcomes import outcome
from steelyard_resilience.chaos.page import line, page, summary, table
from steelyard_resilience.chaos.session import show

KEPT = Outcome(
    fault="memcached killed",
    group="kill -9",
    sent=2000,
    failed=0,
    kinds={},
    worst_ms=36.2,
    slow=0,
    recover_s=0.96,
    rung="fresh",
    bound=Bound(worst_ms=300.0, recover_s=10.0, why="an agent tries again within 8 s"),
    broken=(),
)
FEW = replace(
    KEPT,
    fault="worker killed",
    group="nginx",
    failed=1,
    kinds={"reset": 1},
    bound=replace(KEPT.bound, failed=4),
)
BROKEN = replace(
    KEPT,
    fault="edge | redis",
    group="network",
    failed=3,
    kinds={"502": 3},
    worst_ms=1234.5,
    recover_s=None,
    rung="hold",
    broken=("3 of 2,000 requests failed", "not well again"),
)
STRAY = Request(due_s=12.0, latency_ms=1.0, failure="502")


def gathered(faults: int = 3) -> Gathered:
    """A run of `faults` faults of 10 s each; the last one broke a bound."""
    run = Gathered()
    for number in range(faults):
        began_s = 1000.0 + 10.0 * number
        last = number == faults - 1
        own = [
            Request(
                due_s=began_s + tenth / 10,
                latency_ms=5.0 + tenth,
                failure="reset" if last and tenth == 20 else "",
            )
            for tenth in range(90)
        ]
        trial = Trial(
            fault=f"fault {number}, with a name that has to be wrapped",
            group=f"group {number % 7}",
            bound=Bound(worst_ms=300.0, recover_s=5.0, failed=int(number == 0)),
            began_s=began_s,
            undone_s=began_s + 5.0,
            recovered_s=began_s + 7.0,
            until_s=began_s + 8.0,
            wrong=(),
        )
        looks = [
            Look(at_s=began_s + second, rung="fresh", not_well="ill" if second < 7 else None)
            for second in range(10)
        ]
        run.trials.append(trial)
        run.outcomes.append(outcome(trial, own, looks))
        run.requests += own
        run.looks += looks
    return run


def test_a_line_has_each_figure_beside_its_bound() -> None:
    assert line(KEPT) == "PASS: 2,000 sent, 0 failed, worst 36 ≤ 300 ms, well after 1.0 ≤ 10 s, rung fresh"
    assert line(BROKEN) == (
        "BROKEN: 2,000 sent, 3 > 0 failed, worst 1,234 > 300 ms, well after never > 10 s, rung hold > fresh"
    )
    waited = replace(KEPT, slow=2, bound=replace(KEPT.bound, slow=3))
    assert "worst 36 ≤ 300, slow 2 ≤ 3 ms" in line(waited)
    assert "slow 4 > 3" in line(replace(waited, slow=4))
    silent = replace(KEPT, worst_ms=None, rung=None)
    assert "worst – ms" in line(silent)
    assert line(silent).endswith("rung –")


def test_the_summary_counts_faults_requests_and_failures() -> None:
    sent = [replace(STRAY, failure="")] * 2600
    assert summary(Gathered(outcomes=[KEPT], requests=sent)) == (
        "1 fault, 2,600 requests, 0 failed, all bounds kept"
    )
    assert summary(Gathered(outcomes=[KEPT, FEW], requests=sent)) == (
        "2 faults, 2,600 requests, 1 failed (as the bounds allow), all bounds kept"
    )
    assert summary(Gathered(outcomes=[KEPT, BROKEN], requests=[*sent, STRAY])) == (
        "2 faults, 2,601 requests, 3 failed, 1 failed between the faults (1 502), 1 broke a bound"
    )


def test_the_table_has_a_heading_a_group_and_no_stray_column() -> None:
    lines = table([KEPT, FEW, replace(KEPT, fault="redis killed"), BROKEN]).splitlines()
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == [
        "**kill -9**",
        "memcached killed",
        "redis killed",
        "**nginx**",
        "worker killed",
        "**network**",
        r"edge \| redis",
    ]
    assert lines[6] == "| worker killed | 2,000 | 1 ≤ 4 | 36 ≤ 300 | 1.0 ≤ 10 | fresh | PASS |"
    assert lines[8].endswith("| 3 > 0 | 1,234 > 300 | never > 10 | hold > fresh | **BROKEN** |")


def test_the_page_says_what_broke_and_gives_each_reason_once() -> None:
    run = Gathered(
        outcomes=[KEPT, FEW, BROKEN],
        requests=[STRAY] * 2 + [replace(STRAY, failure="")] * 5998,
        trials=[replace(gathered(1).trials[0], fault="redis killed")],
    )
    text = page(run, conditions={"Machine": "small"})
    assert text.startswith(
        "**3 faults, 6,000 requests, 4 failed, 2 failed between the faults (2 502), 1 broke a bound.**"
    )
    assert "Broken:\n\n- edge | redis: 3 of 2,000 requests failed; not well again\n" in text
    assert text.count("an agent tries again within 8 s") == 1
    assert "- memcached killed, worker killed, edge | redis: an agent" in text
    assert text.endswith("- Machine: small\n")


def test_a_page_without_trouble_has_no_headings_of_trouble() -> None:
    text = page(Gathered(outcomes=[KEPT], requests=[replace(STRAY, failure="")], interrupted=True), {})
    assert text.startswith("**1 fault, 1 requests, 0 failed, all bounds kept, interrupted.**")
    assert "Broken" not in text
    assert "between" not in text


def test_progress_shows_a_fault_and_its_broken_bounds() -> None:
    stream = io.StringIO()
    progress = Progress(stream, steps=2, expected_s=0)
    for result in (KEPT, BROKEN):
        progress.begin(result.fault)
        show(progress, result)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("1 of 2 · 0 s left · memcached killed · PASS: ")
    assert lines[1].startswith("2 of 2 · 0 s left · edge | redis · BROKEN: ")
    assert lines[2:] == ["    3 of 2,000 requests failed", "    not well again"]


def fault(name: str, group: str, *, quick: bool = False) -> Fault:
    return Fault(
        name=name,
        group=group,
        act=nullcontext,
        lasts_s=0.0,
        bound=KEPT.bound,
        quick=quick,
    )


CATALOGUE = [
    fault("memcached killed", "kill -9", quick=True),
    fault("redis killed", "kill -9"),
    fault("full", "disk"),
]


@pytest.mark.parametrize(
    ("patterns", "quick", "names"),
    [
        ([], False, ["memcached killed", "redis killed", "full"]),
        ([], True, ["memcached killed"]),
        (["Killed"], False, ["memcached killed", "redis killed"]),
        (["disk", "mem"], True, ["memcached killed", "full"]),
        (["kill -9"], False, ["memcached killed", "redis killed"]),
    ],
)
def test_faults_are_chosen_by_name_or_group(patterns: list[str], quick: bool, names: list[str]) -> None:
    assert [each.name for each in chosen(CATALOGUE, patterns, quick=quick)] == names


def test_a_pattern_that_fits_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"no fault has 'kills' in its name or group; --list"):
        chosen(CATALOGUE, ["redis", "kills"], quick=False)


def test_the_list_names_each_fault_below_its_group() -> None:
    lines = listed(FAULTS).splitlines()
    named = [line for line in lines if line.startswith("  ")]
    assert len(named) == len(FAULTS)
    assert lines[0] == FAULTS[0].group
    assert sum(line.endswith("(quick)") for line in named) == sum(each.quick for each in FAULTS)


def test_a_run_is_written_whole(tmp_path: Path) -> None:
    run = gathered()
    written = write_page(left_of(run, {"Machine": "small"}), tmp_path)
    assert sorted(written) == sorted(tmp_path.iterdir())
    document = json.loads((tmp_path / "outcomes.json").read_text())
    assert document["conditions"] == {"Machine": "small"}
    assert [one["passed"] for one in document["outcomes"]] == [True, True, False]
    moments = [(one["began_s"], one["until_s"], one["sent"]) for one in document["outcomes"]]
    assert moments == [(0.0, 8.0, 80), (10.0, 18.0, 80), (20.0, 28.0, 80)]
    assert document["outcomes"][2]["broken"] == ["1 of 80 requests failed (1 reset), more than 0"]
    requests = gzip.decompress((tmp_path / "requests.csv.gz").read_bytes()).decode().splitlines()
    assert len(requests) == 1 + len(run.requests)
    assert requests[201] == "22.000000,25.000,reset"
    looks = gzip.decompress((tmp_path / "looks.csv.gz").read_bytes()).decode().splitlines()
    assert looks[1] == "0.000,fresh,ill"
    assert looks[8] == "7.000,fresh,"


def test_a_page_gets_it_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "resilience.md"
    page.write_text(f"before\n<!-- {NAME}: begin -->\nold\n<!-- {NAME}: end -->\nafter\n")
    fill_page(left_of(gathered(), {}), page, NAME)
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
