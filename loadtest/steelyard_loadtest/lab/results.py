"""All that a comparison found. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_loadtest.lab.records import Measured, Missing
from steelyard_loadtest.lab.scenario.model import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The scenarios, every finished cell, what is missing and why, and the conditions.

    conditions: in the order in which they are shown: command, machine, versions, how
    limits were held, date, load average before.
    """

    scenarios: tuple[Scenario, ...]
    measured: tuple[Measured, ...]
    missing: tuple[Missing, ...]
    conditions: Mapping[str, str]
    interrupted: bool
