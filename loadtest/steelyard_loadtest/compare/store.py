"""Keeps what was measured: one JSON file a cell, so that a run that was ended goes on where it was.

DIR/cells/<scenario>/<algorithm>/<level>-<repeat>.json
DIR/cells/<scenario>/settings.json         what the cells were measured with
"""

import json
import shutil
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from steelyard_loadtest.compare.records import Cell, Measured
from steelyard_loadtest.compare.scenario.definition import Scenario
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.reporting.result_files import write_text

_MEASURED = TypeAdapter(Measured)
_SCENARIO = TypeAdapter(Scenario)


class Store:
    """The cells below one folder."""

    def __init__(self, out: Path) -> None:
        self._cells = out / "cells"

    def begin(self, scenario: Scenario) -> None:
        """Note with which settings a scenario is measured.

        Raises SetupError when the folder has cells that were measured with others.
        """
        file = self._settings(scenario)
        if self._differs(scenario):
            raise SetupError(
                f"{file.parent} has figures of other settings (quick and full, or an edited scenario, do not"
                " mix): choose another --out, or --again to have them measured again"
            )
        write_text(file, json.dumps(_settings(scenario)))

    def forget(self, scenario: Scenario) -> None:
        """Remove the cells of the scenario's algorithms, and all that were measured with other settings."""
        folder = self._cells / scenario.name
        for algorithm in scenario.algorithms:
            shutil.rmtree(folder / algorithm, ignore_errors=True)
        if self._differs(scenario):
            shutil.rmtree(folder, ignore_errors=True)

    def save(self, measured: Measured) -> None:
        """Keep a finished cell."""
        write_text(self._file(measured.cell), _MEASURED.dump_json(measured).decode())

    def load(self, cell: Cell) -> Measured | None:
        """Return a finished cell; None when it is still to be measured (or its file was damaged)."""
        return _read(self._file(cell))

    def all(self, scenario: str) -> list[Measured]:
        """Return every finished cell of a scenario, also of algorithms that are not asked for now."""
        files = sorted((self._cells / scenario).glob("*/*.json"))
        found = [_read(file) for file in files]
        return [entry for entry in found if entry is not None]

    def _differs(self, scenario: Scenario) -> bool:
        try:
            known = json.loads(self._settings(scenario).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        return bool(known != _settings(scenario))

    def _settings(self, scenario: Scenario) -> Path:
        return self._cells / scenario.name / "settings.json"

    def _file(self, cell: Cell) -> Path:
        return self._cells / cell.scenario / cell.algorithm / f"{cell.level:g}-{cell.repeat}.json"


def _settings(scenario: Scenario) -> object:
    # Another list of algorithms, more levels or more repeats only add cells; words change nothing.
    words = dict.fromkeys(("title", "what", "source", "algorithms"), True)
    return _SCENARIO.dump_python(
        scenario, mode="json", exclude={**words, "load": {"levels": True, "repeats": True}}
    )


def _read(file: Path) -> Measured | None:
    try:
        return _MEASURED.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
