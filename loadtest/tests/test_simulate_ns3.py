"""The ns-3 study again: its averages and its order, the interface, and that a seed is a result."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from steelyard_loadtest import simulate
from steelyard_loadtest.simulate.ns3 import study, summary, table
from steelyard_loadtest.simulate.ns3.published import COLUMNS, PUBLISHED
from steelyard_loadtest.simulate.ns3.summary import Row, Run
from steelyard_loadtest.simulate.run import run

SEEDS = range(1, 11)


def command(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    simulate.add_parser(parser.add_subparsers())
    options = parser.parse_args(["simulate", "ns3", *arguments])
    status: int = options.run(options)
    return status


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [
        summary.summed_up(run(study.case(balancing), seed))
        for balancing in study.ALGORITHMS
        for seed in SEEDS
    ]


@pytest.fixture(scope="module")
def avg_ms(runs: list[Run]) -> dict[str, float]:
    return {row.algorithm: row.avg_ms.mean for row in summary.rows(runs)}


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_averages_are_within_a_tenth_of_the_published(algorithm: str, avg_ms: dict[str, float]) -> None:
    published = PUBLISHED[algorithm][COLUMNS.index("avg_ms")]
    assert avg_ms[algorithm] == pytest.approx(published, rel=0.1)


def test_the_order_is_the_published_one_as_far_as_chance_did_not_make_it(avg_ms: dict[str, float]) -> None:
    # Those that do not look at the servers all give the slow one a tenth; who of them is first is chance.
    blind = [avg_ms[name] for name in ("wrr", "random", "ringhash", "maglev")]
    assert avg_ms["peakewma"] < 0.6 * avg_ms["lr"]
    assert avg_ms["lr"] < min(blind)
    assert avg_ms["wrr"] == pytest.approx(9.5)
    assert blind == pytest.approx([9.5] * 4, abs=0.5)


def test_percentiles_are_the_published_ones_where_they_are_not_a_matter_of_one_request(
    runs: list[Run],
) -> None:
    rows = {row.algorithm: row for row in summary.rows(runs)}
    for algorithm, published in PUBLISHED.items():
        for name in ("min_ms", "p50_ms", "p75_ms", "p95_ms"):
            at = COLUMNS.index(name)
            assert rows[algorithm].columns[at].mean == pytest.approx(published[at], abs=1e-3), (
                algorithm,
                name,
            )


def test_ours_leave_the_slow_server_less_than_its_tenth(runs: list[Run]) -> None:
    share = {row.algorithm: row.slow_share.mean for row in summary.rows(runs)}
    assert share["steelyard-static-vnswrr"] == pytest.approx(0.1)
    assert share["steelyard-steelyard-vnswrr"] < 0.08
    assert share["steelyard-steelyard-vnswrr2"] < 0.05
    assert share["steelyard-steelyard-peak_ewma"] < 0.005


def test_every_request_is_answered_and_counted(runs: list[Run]) -> None:
    for each in runs:
        assert sum(each.requests_per_server) == 1000
    result = run(study.case(study.ALGORITHMS[0], requests=7), 1)
    assert (result.arrived, result.served, result.in_flight) == (70, 70, 0)


def test_json_is_a_list_of_objects_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--json", "--seeds", "1", "--requests", "20", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert [row["algorithm"] for row in rows[:6]] == ["wrr", "lr", "random", "ringhash", "maglev", "peakewma"]
    assert {row["algorithm"] for row in rows[6:]} >= {
        f"steelyard-{law}-{picker}"
        for law, picker in (
            ("steelyard", "vnswrr2"), ("steelyard", "vnswrr"), ("steelyard", "least_conn"),
            ("steelyard", "peak_ewma"), ("static", "vnswrr"), ("paper", "vnswrr"), ("cswrr", "vnswrr"),
        )
    }  # fmt: skip
    for row in rows:
        assert list(row) == ["algorithm", *COLUMNS, "requests_per_server"]
        assert all(isinstance(row[name], float) for name in COLUMNS)
        assert sum(row["requests_per_server"]) == 200
    assert "events/s" in err


def test_one_seed_has_no_interval_and_many_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--seeds", "1", "--requests", "20", "--only", "random", "--jobs", "1"]) == 0
    assert "±" not in capsys.readouterr().out
    assert command(["--seeds", "3", "--requests", "20", "--only", "random", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("| `random` | 5.000 | ") and "±" in line for line in lines)
    assert "| *published, one run* | *5.000* | *9.614* |" in "\n".join(lines)


def test_the_same_seed_writes_the_same_bytes_whatever_the_number_of_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = []
    for number, jobs in enumerate(("1", "3", "1")):
        out = tmp_path / str(number)
        arguments = ["--seeds", "2", "--requests", "20", "--only", "lr,steelyard-steelyard-vnswrr2"]
        assert command([*arguments, "--jobs", jobs, "--out", str(out)]) == 0
        written.append((out / "ns3.csv").read_bytes())
        assert (out / "ns3.png").read_bytes().startswith(b"\x89PNG")
        assert (out / "ns3.md").read_text().endswith("](ns3.png)\n")
    capsys.readouterr()
    assert written[0] == written[1] == written[2]
    lines = written[0].decode().splitlines()
    assert lines[0].startswith("algorithm,seed,min_ms,avg_ms,")
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["lr", "1"], ["lr", "2"], ["steelyard-steelyard-vnswrr2", "1"], ["steelyard-steelyard-vnswrr2", "2"],
    ]  # fmt: skip


def test_a_page_s_tables_are_written_between_its_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "plots").mkdir()
    page.write_text("before\n<!-- simulate ns3: begin -->\nold\n<!-- simulate ns3: end -->\nafter\n")
    arguments = ["--seeds", "1", "--requests", "10", "--only", "wrr", "--jobs", "1", "--page", str(page)]
    assert command(arguments) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| `wrr` | 5.000 |" in text
    page.write_text("no marks")
    assert command(arguments) == 1
    assert "the page has no <!-- simulate ns3: begin -->" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", "0"], "'0' is not a whole number from 1 to"),
        (["--only", "best"], "there is no 'best'; there are wrr,"),
    ],
)
def test_a_wrong_command_line_is_explained(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(arguments)
    assert says in capsys.readouterr().err


def test_the_tables_show_means_intervals_and_the_slow_server_s_part() -> None:
    made = [
        Run(
            algorithm="lr",
            seed=seed,
            columns=(5, 8.0 + seed, 5, 5, 5, 5, 5, 50, 1),
            requests_per_server=(90, 10 * seed),
            events=1,
            cpu_s=1.0,
        )
        for seed in (1, 3)
    ]
    row: Row = summary.rows(made)[0]
    # t(0.975, 1) = 12.706; s / sqrt(2) = 1.
    assert row.avg_ms.mean == 10.0
    assert row.avg_ms.half_width == pytest.approx(12.706, abs=1e-3)
    assert "| `lr` | 5.000 | 10.000 ± 12.706 | 5.000 |" in table.latencies([row])
    assert "| `lr` | 90.0 | 20.0 | 17.50 ± 95.30 |" in table.distribution([row])
    assert table.objects([row])[0]["avg_ms"] == 10.0
