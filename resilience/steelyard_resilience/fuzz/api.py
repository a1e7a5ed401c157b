"""The live API, asked by schemathesis whatever its OpenAPI document allows, and more."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.footprint import bad_lines
from steelyard_resilience.fuzz.port_daemons import Rig
from steelyard_resilience.fuzz.target import Tally, Violation
from steelyard_resilience.fuzz.targets.http_messages import ADMIN, READ
from steelyard_resilience.fuzz.tool_output import parse_schemathesis, statuses

METHOD = "schemathesis"

STRANGERS = "api-strangers"

# What it is, and what schemathesis is told. A stranger is told 401 and nothing else, so not which methods
# there are.
KINDS = {
    "api": ("the live API, with the administrator's token", ("--header", f"Authorization: Bearer {ADMIN}")),
    STRANGERS: ("the live API, without a token", ("--exclude-checks", "unsupported_method")),
}

# The checks are those of CI; the inputs are others each time.
CONFIG = CHECKOUT / "controller" / "tests" / "api" / "schemathesis.toml"
SAME_EACH_TIME = "deterministic = true"

# It asks some hundred times for all operations before its time counts.
LEAST_S = 3.0

# Reading the document and the first examples come before its clock.
PATIENCE_S = 120.0

TOOL = shutil.which("schemathesis", path=str(Path(sys.executable).parent))


def missing() -> str | None:
    """Return why schemathesis cannot be used here; None when it can."""
    return None if TOOL else "schemathesis is not installed: run `make setup-tests`"


def run(rig: Rig, names: Sequence[str], *, seconds: float, seed: int) -> Iterator[Tally]:
    """Ask a controller with tokens for so long, as its administrator and as a stranger; yield the tallies."""
    tokens = {"STEELYARD_ADMIN_TOKEN": ADMIN, "STEELYARD_READ_TOKEN": READ}
    controller = rig.controller(secrets=tokens)
    config = rig.folder / "schemathesis.toml"
    config.write_text(CONFIG.read_text(encoding="utf-8").replace(SAME_EACH_TIME, ""), encoding="utf-8")
    url = f"http://127.0.0.1:{controller.ports['api']}/openapi.json"
    seconds = max(LEAST_S, seconds)
    for name in names:
        about, more = KINDS[name]
        report = rig.folder / f"{name}.ndjson"
        command = [
            TOOL or "", f"--config-file={config}", "run", url, "--max-time", str(round(seconds)),
            "--seed", str(seed), "--no-color", "--report-ndjson-path", str(report), *more,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=rig.folder, capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_S
        )
        output = done.stdout + done.stderr
        operations, generated, violations = parse_schemathesis(output)
        answers = statuses(report.read_text(errors="replace") if report.exists() else "")
        if done.returncode != 0 and not violations:
            violations.append(f"schemathesis ended with {done.returncode}: {output.strip()[-300:]}")
        violations += bad_lines(controller.log)
        if name == STRANGERS:
            violations += [f"a stranger is answered {code}" for code in answers if code.startswith("5")]
        if any(secret in controller.log.read_text(errors="replace") for secret in (ADMIN, READ)):
            violations.append("a token is in the controller's log")
        yield Tally(
            target=name, method=METHOD, about=about, tried=sum(answers.values()) or generated,
            outcomes=dict(answers), notes=(f"{operations} operations",),
            violations=tuple(Violation(what=what, input=output.encode()) for what in violations),
        )  # fmt: skip
