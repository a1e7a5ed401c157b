"""Weights alone with parts replaced by the truth: the parts, the table, the command."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from steelyard_simulator.command import add_parser
from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, Part, RunResult, Server, Step, Work
from steelyard_simulator.run import run
from steelyard_simulator.studies.alone_study import VARIANTS

LOSS_S = 20.3


LOSS = Server(steps=(Step(at_s=LOSS_S, factor=0.5),))


def loss(*known: Part, first: Server = LOSS) -> RunResult:
    """Return a run in which the first of two servers loses half of its speed."""
    case = Case(
        servers=(first, Server(speed=2.0)),
        clients=OpenClients(rate_per_s=100.0),
        work=Work(cpu=Draw(mean_s=0.01)),
        duration_s=40.0,
        in_phase=True,
        balancing=Balancing(picker="vnswrr", known=known),
    )
    return run(case, 1)


def command(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["simulate", "alone", *arguments])
    status: int = options.run(options)
    return status


def test_a_known_capacity_is_that_of_the_tick_that_has_passed() -> None:
    ticks = loss("capacity", "backlog", "faults", "start").ticks
    whole = ticks.weights[(ticks.t_s > 1.0) & (ticks.t_s < LOSS_S)]
    assert whole == pytest.approx(np.broadcast_to((1 / 3, 2 / 3), whole.shape), abs=0.002)
    in_part, *after = ticks.weights[ticks.t_s > LOSS_S]
    assert 0.2 < in_part[0] < 1 / 3
    assert np.array(after) == pytest.approx(np.broadcast_to((0.2, 0.8), (len(after), 2)), abs=0.002)


def test_a_known_change_reaches_the_picks_of_the_same_tick() -> None:
    def of_first(result: RunResult) -> float:
        picks = result.ticks.picks[result.ticks.t_s > LOSS_S + 0.5][0]
        return float(picks[0] / picks.sum())

    assert of_first(loss("capacity", "change", "backlog", "start")) < 0.26 < of_first(loss("capacity"))


def test_an_absence_is_no_change_of_capacity() -> None:
    absent = Server(away=((LOSS_S, LOSS_S + 4.0),))
    ticks = loss("capacity", "change", "backlog", "faults", "start", first=absent).ticks
    assert ticks.weights == pytest.approx(np.broadcast_to((1 / 3, 2 / 3), ticks.weights.shape), abs=0.002)


def test_the_command_prints_every_variant_of_clusters_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[mine]\nwhat = "two servers"\ncase = {load = 0.7, cpu = 0.05, duration_s = 20, drain_s = 2}\n'
        "server = [{cores = 1}, {cores = 2}]\n"
    )
    out = tmp_path / "out"
    assert command(["--quick", "--clusters", str(own), "--jobs", "1", "--out", str(out)]) == 0
    text = (out / "alone.md").read_text()
    assert f"`steelyard-loadtest simulate alone --quick --clusters {own}`" in text
    for name in [*VARIANTS][1:]:
        assert f"| {name} |" in text
    assert "| geometric mean |" in text
    assert command(["--clusters", str(own), "--only", "two", "--out", str(out)]) != 0
    assert "has no 'two'; it has mine" in capsys.readouterr().err
