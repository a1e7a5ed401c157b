"""Results of steps, kept in files: a run that was cut off goes on, and parts may run one after the other."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from testing.versions.suites import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One step of a subject's tests; `steps` is the number of steps that the subject has."""

    part: str
    subject: str
    tests: str
    step: str
    steps: int
    date: str
    commit: str
    outcome: Outcome


class KeptResults:
    """A folder with a file for each step, and a file for the facts of each Envoy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def log(self, subject: str, step: str) -> Path:
        """Return the file for the output of a step's tests."""
        return self._path(subject, step, ".log")

    def has_passed(self, subject: str, step: str) -> bool:
        """Return whether a kept result of this step has no failure."""
        path = self._path(subject, step, ".json")
        return path.is_file() and not _decoded(path).outcome.failed

    def keep(self, result: Result) -> None:
        """Write a result in place of an earlier one."""
        document = json.dumps(asdict(result), indent=1)
        self._path(result.subject, result.step, ".json").write_text(document, encoding="utf-8")

    def results(self) -> Sequence[Result]:
        """Return all results, in the order of their files."""
        return [_decoded(path) for path in sorted(self._folder.glob("*/*.json"))]

    def facts(self) -> dict[str, Mapping[str, str]]:
        """Return the facts of each Envoy by its version."""
        files = sorted(self._folder.glob("facts-*.json"))
        return {file.stem.removeprefix("facts-"): json.loads(file.read_text("utf-8")) for file in files}

    def keep_facts(self, version: str, facts: Mapping[str, str]) -> None:
        """Write the facts of an Envoy."""
        path = self._folder / f"facts-{version}.json"
        path.write_text(json.dumps(facts, indent=1), encoding="utf-8")

    def _path(self, subject: str, step: str, suffix: str) -> Path:
        folder = self._folder / _slug(subject)
        folder.mkdir(exist_ok=True)
        return folder / (_slug(step) + suffix)


def _decoded(path: Path) -> Result:
    document = json.loads(path.read_text("utf-8"))
    outcome = document.pop("outcome")
    for name in ("failed", "second_try"):
        outcome[name] = tuple(outcome[name])
    return Result(**document, outcome=Outcome(**outcome))


def _slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-")
