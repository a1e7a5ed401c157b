"""docs/control-law.md and docs/reference/law-parameters.md agree with the code."""

import re
from pathlib import Path

import pytest
from steelyard_controller import laws

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "control-law.md"
PARAMETERS = ROOT / "docs" / "reference" / "law-parameters.md"
LAW = ROOT / "controller" / "steelyard_controller" / "laws" / "steelyard" / "steelyard_law.py"


@pytest.mark.parametrize("name", laws.NAMES)
def test_the_reference_lists_every_parameter_with_its_default_unit_range_and_meaning(name: str) -> None:
    table = PARAMETERS.read_text(encoding="utf-8").split(f"**`{name}`**\n\n")[1].split("\n\n")[0]
    rows = [
        f"| `{each.name}` | {each.default:g} | {each.unit} | {each.low:g}..{each.high:g} | {each.reason} |"
        for each in laws.parameters_of(name)
    ]
    assert table.splitlines()[2:] == rows


def test_every_name_in_the_table_of_letters_is_a_name_of_the_code() -> None:
    letters = PARAMETERS.read_text(encoding="utf-8").split("## Parameters")[0]
    rows = re.findall(r"^\| [^|`]+ \| ([^|]+) \|", letters, re.MULTILINE)
    names = re.findall(r"`(\w+)`", " ".join(rows))
    source = "\n".join(path.read_text(encoding="utf-8") for path in LAW.parents[1].rglob("*.py"))
    assert names
    assert [name for name in names if not re.search(rf"\b{name}\b", source)] == []


def test_every_law_has_tests_of_its_own() -> None:
    assert [
        name for name in laws.NAMES if not (Path(__file__).parent / f"test_law_{name}.py").is_file()
    ] == []


def test_every_plot_on_the_page_is_there() -> None:
    plots = re.findall(r"\]\((research/plots/[^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert plots
    assert [plot for plot in plots if not (PAGE.parent / plot).is_file()] == []


def test_the_steps_of_the_default_law_have_the_pages_order_numbers_and_names() -> None:
    on_the_page = re.findall(r"^### (\d+\. .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    in_the_code = re.findall(r"^ +# (\d+\. .+)$", LAW.read_text(encoding="utf-8"), re.MULTILINE)
    assert on_the_page
    assert in_the_code == on_the_page


def test_every_file_that_a_step_names_is_there() -> None:
    named = re.findall(r"^### \d+\. .+\n\n(`[^.]+)\.", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    files = re.findall(r"`([^` ]+)`", " ".join(named))
    assert files
    assert [name for name in files if not (LAW.parents[1] / f"{name}.py").is_file()] == []
