"""Keeps results: one JSON file a trial, so that an interrupted run continues.

DIR/trials/<scenario>/<algorithm>/<level>-<repeat>.json
DIR/trials/<scenario>/settings.json         the settings of these trials
"""

import json
import shutil
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.measurements.trials import Measured, Trial
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.scenario.definition import Scenario

_MEASURED = TypeAdapter(Measured)
_SCENARIO = TypeAdapter(Scenario)


class Store:
    """The trials below one folder."""

    def __init__(self, out: Path) -> None:
        self._trials = out / "trials"

    def begin(self, scenario: Scenario) -> None:
        """Record the settings with which a scenario is measured.

        Raises SetupError when the folder has trials with other settings.
        """
        file = self._settings(scenario)
        if self._differs(scenario):
            raise SetupError(
                f"{file.parent} has results of other settings (quick and full, or edited, cannot mix)."
                " Choose another --out, or --again to measure them again"
            )
        write_text(file, json.dumps(_settings(scenario)))

    def forget(self, scenario: Scenario) -> None:
        """Remove the trials of the scenario's algorithms, and all trials with other settings."""
        folder = self._trials / scenario.name
        for algorithm in scenario.algorithms:
            shutil.rmtree(folder / algorithm, ignore_errors=True)
        if self._differs(scenario):
            shutil.rmtree(folder, ignore_errors=True)

    def save(self, measured: Measured) -> None:
        """Keep a finished trial."""
        write_text(self._file(measured.trial), _MEASURED.dump_json(measured).decode())

    def load(self, trial: Trial) -> Measured | None:
        """Return a finished trial; None if it is not measured yet, or its file is damaged."""
        return _read(self._file(trial))

    def all(self, scenario: str) -> list[Measured]:
        """Return every finished trial of a scenario, including algorithms that are not asked for now."""
        files = sorted((self._trials / scenario).glob("*/*.json"))
        return [entry for entry in map(_read, files) if entry is not None]

    def _differs(self, scenario: Scenario) -> bool:
        try:
            known = json.loads(self._settings(scenario).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        return bool(known != _settings(scenario))

    def _settings(self, scenario: Scenario) -> Path:
        return self._trials / scenario.name / "settings.json"

    def _file(self, trial: Trial) -> Path:
        return self._trials / trial.scenario / trial.algorithm / f"{trial.level:g}-{trial.repeat}.json"


def _settings(scenario: Scenario) -> object:
    # Another list of algorithms, more levels or more repeats only add trials; texts change nothing.
    words = dict.fromkeys(("title", "what", "source", "algorithms"), True)
    return _SCENARIO.dump_python(
        scenario, mode="json", exclude={**words, "load": {"levels": True, "repeats": True}}
    )


def _read(file: Path) -> Measured | None:
    try:
        return _MEASURED.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
