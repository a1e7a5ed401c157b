"""The worth of the law's constants: which are changed, how, and the table on made-up figures."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.steelyard import evidence, factors
from steelyard_simulator.command import add_parser
from steelyard_simulator.model import Balancing, Case, Draw, Failing, OpenClients, RunResult, Server, Work
from steelyard_simulator.run import run
from steelyard_simulator.studies import constants_study, law_constants
from steelyard_simulator.studies.constants_study import ConstantTrial, page
from steelyard_simulator.studies.law_constants import MODULES, changes, constants, parameters, replaced
from steelyard_simulator.studies.measures import Figures


def small(**law: float) -> RunResult:
    """Return a short run of two servers, one of which fails half of its requests."""
    case = Case(
        servers=(Server(failing=(Failing(start_s=2.0, end_s=9.0, part=0.5),)), Server()),
        clients=OpenClients(rate_per_s=40.0),
        work=Work(cpu=Draw(mean_s=0.01)),
        duration_s=6.0,
        balancing=Balancing(picker="vnswrr", parameters=law),
    )
    return run(case, 1)


def test_each_constant_and_parameter_is_changed_or_has_a_reason_not_to_be() -> None:
    changed = {change.of for change in changes()}
    names = {**constants(), **parameters()}
    assert [name for name in names if name not in changed | law_constants.LEFT_OUT.keys()] == []
    ours = {name for module in MODULES for name in vars(module)}
    declared = law_constants.OFF.keys() | law_constants.INSTEAD.keys() | law_constants.LEFT_OUT.keys()
    assert [name for name in declared if name not in ours | names.keys()] == []


def test_a_constant_has_one_value_in_all_modules() -> None:
    for name, value in constants().items():
        assert all(vars(module).get(name, value) is value for module in MODULES), name


def test_a_replaced_constant_is_another_one_everywhere_and_comes_back() -> None:
    with replaced({"IDLE_LOAD": 0.5, "FAILURE_POWER": 0.0}):
        assert {vars(module)["IDLE_LOAD"] for module in MODULES if "IDLE_LOAD" in vars(module)} == {0.5}
        without = small()
    assert (evidence.IDLE_LOAD, factors.FAILURE_POWER) == (0.02, 3.0)
    assert without.ticks.weights[-1, 0] > 1.5 * small().ticks.weights[-1, 0]


def test_an_unknown_name_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="no module of the law has the name NOT_THERE"),
        replaced({"NOT_THERE": 1.0}),
    ):
        pass


@pytest.mark.parametrize("change", changes(), ids=lambda change: f"{change.of}={change.instead}")
def test_the_law_can_run_with_each_change(change: law_constants.Change) -> None:
    laws.create(law_constants.LAW, change.parameters)
    with replaced(change.names):
        weights = small(**change.parameters).ticks.weights
    assert np.isfinite(weights).all()
    assert weights.min() > 0


def made_up(p99_ms: Mapping[tuple[str, str, str], float]) -> dict[ConstantTrial, list[Figures]]:
    """Return runs with these figures by constant, replacement and picker; 100 ms for all others."""
    changed = {(of, instead) for of, instead, _ in p99_ms}
    taus = [("noise", f"{tau_s:g}") for tau_s in constants_study.NOISE_TAU_S]
    return {
        ConstantTrial(cluster="two", picker=picker, of=of, instead=instead): [
            {"p99_ms": p99_ms.get((of, instead, picker), 100.0), "failed": 0.0, "unanswered": 0.0}
        ]
        for of, instead in (("the law", ""), *taus, *sorted(changed - set(taus)))
        for picker in constants_study.PICKERS
    }


def test_the_table_is_sorted_by_worth_in_noises() -> None:
    noise = {
        ("noise", f"{tau_s:g}", picker): 101.0 for tau_s in (27.0, 31.5) for picker in ("vnswrr", "vnswrr2")
    }
    runs = made_up(
        {
            **noise,
            ("FULL", "off", "vnswrr"): 120.0,
            ("eps", "off", "vnswrr2"): 150.0,
            ("beta", "off", "vnswrr"): 99.0,
            ("beta", "off", "vnswrr2"): 99.0,
            ("phi", "off", "vnswrr"): 100.0,
        }
    )
    text = page(argparse.Namespace(), runs, "the command").text({})
    assert (
        "`the command`: 1 cluster, 1 seed each. The noise of a mean is 0.7 % (weights alone), 0.7 %" in text
    )
    assert "2 of 4 changes cost at least 3 noises, and 1 change no run." in text
    _, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.split(" | ")[0] for row in rows] == ["| `eps`", "| `FULL`", "| `phi`", "| `beta`"]
    assert rows[1] == ("| `FULL` | 0.95 | off | 1.200 | 1.20 two | 1.000 | 1.00 two |  | 1 | 25.9 |")


def test_the_command_writes_a_row_for_a_chosen_constant(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    chosen = ["--quick", "--only", "FAILURE_POWER", "--on", "few-beside-others"]
    options = parser.parse_args(["simulate", "constants", *chosen, "--jobs", "1", "--out", str(tmp_path)])
    assert options.run(options) == 0
    text = (tmp_path / "constants.md").read_text()
    assert "simulate constants --quick --only FAILURE_POWER --on few-beside-others`" in text
    assert "| `FAILURE_POWER` | 3 | off |" in text
