"""The tests that a version decides about, and one run of them."""

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

XDS = ("controller/tests/xds/test_envoy.py",)
ORCA = (
    "agent/tests/outputs/test_orca_examples.py::test_envoy_prefers_the_server_that_says_it_is_less_loaded",
)

# An Envoy that refuses out-of-band reports would let these tests wait in vain.
ORCA_IN_BAND = (f"{ORCA[0]}[in the answers]",)
HAPROXY = ("reporter/tests/test_reporter_haproxy.py", "controller/tests/haproxy", "-m", "integration")
NGINX = ("openresty/tests", "-m", "integration and not long and not alone")

# Unit tests, and the tests with the real stores, which these libraries talk to.
LIBRARIES = (
    (
        "agent",
        "protocol",
        "reporter",
        "controller",
        "-m",
        "not integration and not e2e",
        "--ignore-glob=*/laws/*",
    ),
    ("controller/tests/store", "protocol/tests", "reporter/tests/test_reporter.py", "-m", "integration"),
)

LONGEST_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of tests, and the names of those that failed."""

    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            passed=self.passed + other.passed,
            skipped=self.skipped + other.skipped,
            failed=self.failed + other.failed,
        )


def run(python: Path, suite: Sequence[str], folder: Path, **environment: str) -> Outcome:
    """Run a suite with this Python; the output is in `folder`. A suite that does not run is one failure."""
    report, log = folder / "report.xml", folder / "tests.log"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--reruns", "1", *suite]
    with log.open("ab") as output:
        try:
            subprocess.run(
                [*command, f"--junitxml={report}"],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=output,
                stderr=output,
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(failed=(f"no end after {LONGEST_S} s",))
    if not report.is_file():
        return Outcome(failed=(f"pytest did not run: {log}",))
    return outcome(report.read_text(encoding="utf-8"))


def outcome(report: str) -> Outcome:
    """Return the outcome in a JUnit report; a test that passed when it ran again has passed."""
    # A test that ran again has a case for each time; the last one counts.
    cases = {
        (case.get("classname"), case.get("name")): case
        for case in ElementTree.fromstring(report).iter("testcase")  # noqa: S314 (pytest's own file)
    }
    passed, skipped, failed = 0, 0, []
    for case in cases.values():
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(str(case.get("name")))
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Outcome(passed=passed, skipped=skipped, failed=tuple(failed))


def first_on_path(program: Path, name: str, folder: Path) -> Mapping[str, str]:
    """Return an environment whose PATH begins with a folder that has this program under this name."""
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / name
    link.unlink(missing_ok=True)
    link.symlink_to(program.resolve())
    return {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}
