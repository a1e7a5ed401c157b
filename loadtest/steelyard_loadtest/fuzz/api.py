"""The live API, asked by schemathesis whatever its OpenAPI document allows, and more."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from steelyard_loadtest.fuzz import schemathesis_said
from steelyard_loadtest.fuzz.contract import CHECKOUT
from steelyard_loadtest.fuzz.model import Tally, Violation
from steelyard_loadtest.fuzz.ports.look import bad_lines
from steelyard_loadtest.fuzz.ports.rig import Rig

METHOD = "schemathesis"

NAMES = ("api", "api-strangers")

ADMIN = "admin-token-of-the-fuzzer"
READ = "read-token-of-the-fuzzer"

# The checks are those of CI; the inputs are others each time.
CONFIG = CHECKOUT / "controller" / "tests" / "schemathesis.toml"
SAME_EACH_TIME = "deterministic = true"

# Reading the document and the first examples come before its clock.
PATIENCE_S = 120.0


def missing() -> str | None:
    """Return why schemathesis cannot be used here; None when it can."""
    return None if _tool() else "schemathesis is not installed: run `make setup-tests`"


def run(rig: Rig, folder: Path, *, names: tuple[str, ...], seconds: float, seed: int) -> Iterator[Tally]:
    """Ask a controller with tokens for so long, as its administrator and as a stranger; yield the tallies."""
    tokens = {"STEELYARD_ADMIN_TOKEN": ADMIN, "STEELYARD_READ_TOKEN": READ}
    controller = rig.controller(environment=os.environ | tokens)
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG.read_text(encoding="utf-8").replace(SAME_EACH_TIME, ""), encoding="utf-8")
    # A stranger is told 401 and nothing else, so not which methods there are.
    kinds = {
        "api": (
            "the live API, with the administrator's token",
            ("--header", f"Authorization: Bearer {ADMIN}"),
        ),
        "api-strangers": ("the live API, without a token", ("--exclude-checks", "unsupported_method")),
    }
    for name in names:
        about, more = kinds[name]
        report = folder / f"{name}.ndjson"
        command = [
            _tool() or "", f"--config-file={config}", "run", f"http://127.0.0.1:{controller.ports['api']}/openapi.json",
            "--max-time", str(max(1, round(seconds))), "--seed", str(seed), "--no-color",
            "--report-ndjson-path", str(report), *more,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_S
        )
        yield _tally(name, about, done.returncode, done.stdout + done.stderr, report, controller.log)


def _tally(name: str, about: str, status: int, output: str, report: Path, log: Path) -> Tally:
    said = schemathesis_said.parse(output)
    answers = schemathesis_said.statuses(report.read_text(errors="replace") if report.exists() else "")
    violations = [*said.failures, *bad_lines(log)[:3]]
    if status != 0 and not said.failures:
        violations.append(f"schemathesis ended with {status}: {output.strip()[-300:]}")
    if name == "api-strangers":
        violations += [f"a stranger is answered {code}" for code in answers if code.startswith("5")]
    if any(secret in log.read_text(errors="replace") for secret in (ADMIN, READ)):
        violations.append("a token is in the controller's log")
    return Tally(
        target=name,
        method=METHOD,
        about=about,
        tried=sum(answers.values()) or said.generated,
        outcomes=dict(Counter(answers)),
        reached=f"{said.operations} operations",
        violations=tuple(Violation(what=what, input=output.encode()) for what in violations),
    )


def _tool() -> str | None:
    return shutil.which("schemathesis", path=str(Path(sys.executable).parent))
