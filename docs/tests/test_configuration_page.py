"""docs/reference/configuration.md and the settings of the programs: the same flags, the same defaults."""

import re
from pathlib import Path

import pytest
from steelyard_agent import flags as agent
from steelyard_controller import flags as controller
from steelyard_protocol.program_settings import Flags
from steelyard_reporter import settings as reporter

PAGE = Path(__file__).parents[1] / "reference/configuration.md"

PROGRAMS = {"Controller": controller.FLAGS, "Agent": agent.FLAGS, "Reporter": reporter.FLAGS}


def _rows(heading: str) -> list[list[str]]:
    """Return the rows of the section's first table, as cells."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    table = section[section.index("\n| flag") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[3:]]


@pytest.mark.parametrize(("heading", "flags"), PROGRAMS.items())
def test_every_flag_is_on_the_page_and_no_other(heading: str, flags: Flags) -> None:
    named = [name for row in _rows(heading) for name in re.findall(r"`--([a-z-]+)`", row[0])]
    assert sorted(named) == sorted(setting.name for setting in flags.settings)


@pytest.mark.parametrize(("heading", "flags"), PROGRAMS.items())
def test_every_default_is_that_of_the_program(heading: str, flags: Flags) -> None:
    defaults = {setting.name: setting.default for setting in flags.settings}
    for row in _rows(heading):
        names = re.findall(r"`--([a-z-]+)`", row[0])
        shown = [each.strip("` ") for each in row[1].split(", ")]
        if len(shown) != len(names):
            continue  # a default in words, for several flags at once
        for name, default in zip(names, shown, strict=True):
            assert defaults[name] in (None, default), name


@pytest.mark.parametrize("flags", PROGRAMS.values(), ids=PROGRAMS)
def test_help_is_a_noun_phrase_with_a_default_that_is_not_empty(flags: Flags) -> None:
    text = flags.help()
    assert not re.search(r"default: *(\)|None|null)", text)
    for setting in flags.settings:
        assert setting.help[0].isupper() or setting.help.startswith("/")
        assert not setting.help.endswith(".")
