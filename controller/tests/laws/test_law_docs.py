"""docs/control-law.md says what the code does."""

import re
from pathlib import Path

import pytest
from steelyard_controller import laws

PAGE = Path(__file__).parents[3] / "docs" / "control-law.md"


@pytest.mark.parametrize("name", laws.NAMES)
def test_every_parameter_is_on_the_page_with_its_default_unit_range_and_reason(name: str) -> None:
    table = PAGE.read_text(encoding="utf-8").split(f"**`{name}`**\n\n")[1].split("\n\n")[0]
    rows = [
        f"| `{each.name}` | {each.default:g} | {each.unit} | {each.low:g}..{each.high:g} | {each.reason} |"
        for each in laws.parameters_of(name)
    ]
    assert table.splitlines()[2:] == rows


def test_every_plot_on_the_page_is_there() -> None:
    plots = re.findall(r"\]\((plots/[^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert plots
    assert [plot for plot in plots if not (PAGE.parent / plot).is_file()] == []
