"""The ns-3 study again: its averages and its order, the interface, and that a seed is a result."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pytest
from steelyard_simulator.command import add_parser
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import Figures, Measures, averaged
from steelyard_simulator.studies.ns3_study import (
    BY_NAME,
    CLIENTS,
    COLUMNS,
    HASHED,
    PUBLISHED,
    REQUESTS,
    Ns3Trial,
    figures_of,
    page,
)

SEEDS = range(1, 5)
OURS = (
    "steelyard-static-vnswrr",
    "steelyard-steelyard-vnswrr",
    "steelyard-steelyard-vnswrr2",
    "steelyard-steelyard-peak_ewma",
)


def command(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["simulate", "ns3", *arguments])
    status: int = options.run(options)
    return status


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Figures]]:
    cases = {name: Ns3Trial(algorithm=name).case() for name in BY_NAME if name in {*PUBLISHED, *OURS}}
    return {name: [figures_of(case, run(case, seed)) for seed in SEEDS] for name, case in cases.items()}


@pytest.fixture(scope="module")
def rows(runs: dict[str, list[Figures]]) -> dict[str, Measures]:
    return averaged(runs)


@pytest.fixture(scope="module")
def avg_ms(rows: dict[str, Measures]) -> dict[str, float]:
    return {algorithm: row["avg_ms"].mean for algorithm, row in rows.items()}


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_averages_are_within_a_tenth_of_the_published(algorithm: str, avg_ms: dict[str, float]) -> None:
    published = PUBLISHED[algorithm][list(COLUMNS).index("avg_ms")]
    assert avg_ms["random" if algorithm in HASHED else algorithm] == pytest.approx(published, rel=0.1)


def test_the_order_is_the_published_one_as_far_as_chance_did_not_make_it(avg_ms: dict[str, float]) -> None:
    # Those that do not look at the servers all give the slow one a tenth; their order is chance.
    blind = [avg_ms[name] for name in ("wrr", "random")]
    assert avg_ms["peakewma"] < 0.6 * avg_ms["lr"]
    assert avg_ms["lr"] < min(blind)
    assert avg_ms["wrr"] == pytest.approx(9.5)
    assert blind == pytest.approx([9.5] * 2, abs=0.5)


def test_percentiles_are_the_published_ones_where_they_are_not_a_matter_of_one_request(
    rows: dict[str, Measures],
) -> None:
    for algorithm, published in PUBLISHED.items():
        mine = rows["random" if algorithm in HASHED else algorithm]
        for name in ("min_ms", "p50_ms", "p75_ms", "p95_ms"):
            wanted = published[list(COLUMNS).index(name)]
            assert mine[name].mean == pytest.approx(wanted, abs=1e-3), (algorithm, name)


def test_ours_leave_the_slow_server_less_than_its_tenth(rows: dict[str, Measures]) -> None:
    percent = {algorithm: row["slow_percent"].mean for algorithm, row in rows.items()}
    assert percent["steelyard-static-vnswrr"] == pytest.approx(10)
    assert percent["steelyard-steelyard-vnswrr"] < 8
    assert percent["steelyard-steelyard-vnswrr2"] < 5
    assert percent["steelyard-steelyard-peak_ewma"] < 0.5


def test_every_request_is_answered() -> None:
    result = run(Ns3Trial(algorithm="wrr").case(), 1)
    assert (result.arrived, result.served, result.in_flight) == (CLIENTS * REQUESTS, CLIENTS * REQUESTS, 0)


def test_one_seed_has_no_interval_and_many_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--only", "random", "--jobs", "1", "--out", str(tmp_path)]
    assert command(["--seeds", "1", *few]) == 0
    assert "±" not in capsys.readouterr().out
    assert command(["--seeds", "3", *few]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert any(line.startswith("| `random` | 5.000 | ") and "±" in line for line in lines)
    # Published algorithms with hashes of random keys are compared with random choices.
    for name in ("one run | *5.000* | *9.614*", "ringhash | *5.000* | *9.370*", "maglev | *5.000* | *8.713*"):
        assert f"| *published, {name.replace(' |', '* |', 1)} |" in out
    assert "events/s" in err


def test_the_same_seed_writes_the_same_bytes_whatever_the_number_of_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = []
    for number, jobs in enumerate(("1", "3")):
        out = tmp_path / str(number)
        arguments = ["--seeds", "2", "--only", "lr,steelyard-steelyard-vnswrr2"]
        assert command([*arguments, "--jobs", jobs, "--out", str(out)]) == 0
        written.append((out / "ns3.csv").read_bytes())
        assert (out / "ns3.md").read_text().endswith(" |\n")
    capsys.readouterr()
    assert written[0] == written[1]
    lines = written[0].decode().splitlines()
    assert lines[0].startswith("algorithm,seed,min_ms,avg_ms,")
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["lr", "1"], ["lr", "2"], ["steelyard-steelyard-vnswrr2", "1"], ["steelyard-steelyard-vnswrr2", "2"],
    ]  # fmt: skip


def test_a_page_s_tables_are_written_between_its_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- simulate ns3: begin -->\nold\n<!-- simulate ns3: end -->\nafter\n")
    arguments = ["--seeds", "1", "--only", "wrr", "--jobs", "1", "--out", str(tmp_path), "--page", str(page)]
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
        (["--seeds", "0"], "a whole number of seeds from 1 to"),
        (["--only", "best"], "there is no 'best'; there are wrr,"),
    ],
)
def test_a_wrong_command_line_is_explained(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(arguments)
    assert says in capsys.readouterr().err


def test_the_table_shows_means_intervals_and_the_slow_server_s_part() -> None:
    latencies_ms = dict(zip(COLUMNS, (5, 0, 5, 5, 5, 5, 5, 50, 1), strict=True))
    made: list[Figures] = [
        {**latencies_ms, "avg_ms": 8.0 + seed, "slow_percent": 10.0 + 7.5 * (seed - 1)} for seed in (1, 3)
    ]
    text = page({Ns3Trial(algorithm="lr"): made}, "the command")
    # t(0.975, 1) = 12.706; s / sqrt(2) = 1.
    assert "| `lr` | 5.000 | 10.000 ± 12.706 | 5.000 |" in text
    assert "| 1.000 | 17.50 ± 95.30 |" in text
