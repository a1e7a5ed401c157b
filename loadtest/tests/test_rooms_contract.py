"""The rule of `.importlinter` for the rooms of each package."""

from typing import Any

import grimp
import pytest

from testing.rooms_contract import RoomsContract

AGENT = ["command", "record : sample", "reading"]


def of(agent: list[str], imports: list[tuple[str, str]]) -> Any:
    """Return the contract, and its result for a package with these rooms and imports."""
    graph = grimp.ImportGraph()
    for name in ("", ".command", ".record", ".sample", ".reading"):
        graph.add_module(f"steelyard_agent{name}")
    for importer, imported in imports:
        graph.add_import(importer=f"steelyard_agent.{importer}", imported=f"steelyard_agent.{imported}")
    fields: dict[str, list[str]] = {name: [] for name in vars(RoomsContract) if name.startswith("steelyard_")}
    contract = RoomsContract(
        name="rooms",
        session_options={"root_packages": ["steelyard_agent"]},
        contract_options={**fields, "steelyard_agent": agent},
    )
    return contract, contract.check(graph, verbose=False)


def test_a_room_may_know_those_below_it_and_those_behind_a_colon() -> None:
    _, check = of(AGENT, [("command", "reading"), ("record", "sample"), ("sample", "reading")])
    assert check.kept


def test_an_import_upwards_and_a_room_without_a_place_break_it_and_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    contract, check = of(["command", "record | sample"], [("sample", "command"), ("record", "sample")])
    assert not check.kept
    contract.render_broken_contract(check)
    printed = capsys.readouterr().out
    for line in (
        "steelyard_agent.sample is not allowed to import steelyard_agent.command",
        "steelyard_agent.record is not allowed to import steelyard_agent.sample",
        "- steelyard_agent.reading",
    ):
        assert line in printed
