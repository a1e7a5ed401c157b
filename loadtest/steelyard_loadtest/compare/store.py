"""Keeps results: one JSON file a trial, so that an interrupted run continues.

DIR/trials/<scenario>/<algorithm>/<level>-<repeat>.json
DIR/trials/<scenario>/settings.json         the settings of these trials
DIR/trials/<scenario>/capacity.json         the servers' capacity, if levels are parts of it
DIR/conditions.json                         the conditions of all of them
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.measurements.capacity import Capacity, of_trials
from steelyard_loadtest.measurements.trials import Measured, Trial
from steelyard_loadtest.reporting.conditions import CONDITIONS, kept
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.scenario.definition import Scenario

_TRIALS = "*/*.json"
"""From a scenario's folder; its settings and capacity are not below another folder."""

_CAPACITY = TypeAdapter(Capacity)
_MEASURED = TypeAdapter(Measured)
_SCENARIO = TypeAdapter(Scenario)


class Store:
    """The trials below one folder."""

    def __init__(self, out: Path) -> None:
        self._out, self._trials = out, out / "trials"

    def begin(self, scenario: Scenario) -> None:
        """Record the settings with which a scenario is measured.

        Raises SetupError when the folder has trials with other settings.
        """
        self.check(scenario)
        write_text(self._settings(scenario), json.dumps(_settings(scenario)))

    def check(self, scenario: Scenario) -> None:
        """Raise SetupError if the folder has trials with other settings."""
        if self._differs(scenario):
            raise SetupError(
                f"{self._trials / scenario.name} has results of other settings (quick and full, or edited,"
                " cannot mix). Choose another --out, or --again to measure them again"
            )

    def note(self, conditions: Mapping[str, str]) -> None:
        """Keep the conditions of trials beside those of earlier ones, also if the run does not end."""
        kept(self._out, conditions, new=True)

    def forget(self, scenario: Scenario) -> None:
        """Remove the trials of the scenario's algorithms, and all trials with other settings.

        The capacity stays if trials of other algorithms do, because they are compared with new ones. The
        conditions stay if any trial does.
        """
        folder = self._trials / scenario.name
        for algorithm in scenario.algorithms:
            shutil.rmtree(folder / algorithm, ignore_errors=True)
        if self._differs(scenario) or not any(folder.glob(_TRIALS)):
            shutil.rmtree(folder, ignore_errors=True)
        if not any(self._trials.glob(f"*/{_TRIALS}")):
            (self._out / CONDITIONS).unlink(missing_ok=True)

    def keep_capacity(self, scenario: Scenario, capacity: Capacity) -> None:
        """Keep the servers' capacity for the following runs into this folder."""
        write_text(self._capacity(scenario), _CAPACITY.dump_json(capacity).decode())

    def capacity(self, scenario: Scenario) -> Capacity | None:
        """Return the kept capacity; without one, that of the trials; None without both."""
        try:
            return _CAPACITY.validate_json(self._capacity(scenario).read_bytes())
        except (OSError, ValidationError):
            return of_trials(
                (entry.trial.level, entry.outcome.requests / entry.outcome.seconds)
                for entry in self.all(scenario.name)
                if entry.outcome.seconds > 0
            )

    def save(self, measured: Measured) -> None:
        """Keep a finished trial."""
        write_text(self._file(measured.trial), _MEASURED.dump_json(measured).decode())

    def load(self, trial: Trial) -> Measured | None:
        """Return a finished trial; None if it is not measured yet, or its file is damaged."""
        return _read(self._file(trial))

    def all(self, scenario: str) -> list[Measured]:
        """Return every finished trial of a scenario, including algorithms that are not asked for now."""
        files = sorted((self._trials / scenario).glob(_TRIALS))
        return [entry for entry in map(_read, files) if entry is not None]

    def _differs(self, scenario: Scenario) -> bool:
        try:
            known = json.loads(self._settings(scenario).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        try:
            # An older build did not know every key, and then its trials had the key's default.
            return _settings(_SCENARIO.validate_python(_whole(known))) != _settings(scenario)
        except (ValidationError, TypeError):
            return True

    def _settings(self, scenario: Scenario) -> Path:
        return self._trials / scenario.name / "settings.json"

    def _capacity(self, scenario: Scenario) -> Path:
        return self._trials / scenario.name / "capacity.json"

    def _file(self, trial: Trial) -> Path:
        return self._trials / trial.scenario / trial.algorithm / f"{trial.level:g}-{trial.repeat}.json"


def _settings(scenario: Scenario) -> object:
    # Another list of algorithms, more levels or more repeats only add trials; texts change nothing.
    words = dict.fromkeys(("title", "what", "source", "algorithms"), True)
    return _SCENARIO.dump_python(
        scenario, mode="json", exclude={**words, "load": {"levels": True, "repeats": True}}
    )


def _whole(settings: Any) -> object:  # noqa: ANN401 - JSON, not judged yet
    """Return a scenario's settings with something in place of what is not among them. Raises TypeError."""
    texts = {"title": "", "what": "", "source": "", "algorithms": ["nginx-rr"]}
    return {**settings, **texts, "load": {**settings.get("load", {}), "levels": [1]}}


def _read(file: Path) -> Measured | None:
    try:
        return _MEASURED.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
