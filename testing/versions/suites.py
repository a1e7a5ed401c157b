"""The tests that a version decides about, and one run of some of them."""

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

Steps = Mapping[str, tuple[str, ...]]
"""By name, pytest's arguments. A run that is cut off goes on at the next step."""

XDS = ("controller/tests/xds/test_envoy.py",)
ORCA = (
    "agent/tests/outputs/test_orca_examples.py::test_envoy_prefers_the_server_that_says_it_is_less_loaded",
)

# An Envoy that refuses out-of-band reports would let these tests wait in vain.
ORCA_IN_BAND = (f"{ORCA[0]}[in the answers]",)

HAPROXY: Steps = {
    "reporter": ("reporter/tests", "-m", "integration"),
    "agent-check": ("controller/tests/haproxy", "-m", "integration"),
}

DAEMONS = ("-m", "integration")

# The counts of a request's work belong to the pinned nginx.
NGINX: Steps = {
    file.stem: (str(file.relative_to(ROOT)), *DAEMONS)
    for file in sorted((ROOT / "openresty/tests").glob("test_*.py"))
    if "mark.integration" in file.read_text(encoding="utf-8") and file.stem != "test_work_per_request"
}

# The tests of all code that imports psutil, redis-py or pymemcache. Laws and pages do not.
UNITS = ("-m", "not integration and not e2e")
LIBRARIES: Steps = {
    "agent": ("agent", *UNITS),
    "protocol": ("protocol", *UNITS),
    "reporter": ("reporter", *UNITS),
    "controller": ("controller", *UNITS, "--ignore-glob=*/laws/*"),
    # Tests with an Envoy are of another part.
    "agent, real daemons": ("agent", *DAEMONS, "-k", "not envoy_prefers"),
    "protocol, real daemons": ("protocol", *DAEMONS),
    "reporter, real daemons": ("reporter", *DAEMONS),
    **{
        f"{name}, real daemons": (f"controller/tests/{name}", *DAEMONS)
        for name in ("store", "leader", "messages", "tick", "cli", "test_service.py")
    },
    "api, real daemons": ("controller/tests/api", *DAEMONS, "-k", "not every_panel"),
}

LONGEST_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of tests; names of those that failed, and of those that passed when they ran again."""

    passed: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    second_try: tuple[str, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            passed=self.passed + other.passed,
            skipped=dict(Counter(self.skipped) + Counter(other.skipped)),
            failed=self.failed + other.failed,
            second_try=self.second_try + other.second_try,
        )


def run(python: Path, suite: Sequence[str], log: Path, environment: Mapping[str, str]) -> Outcome:
    """Run a suite with this Python; the output is in `log`. A suite that does not run is one failure."""
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--reruns", "1", *suite]
    with log.open("wb") as output:
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
        return Outcome(failed=(f"pytest did not run: {log.name}",))
    try:
        return outcome(report.read_text(encoding="utf-8"))
    except ElementTree.ParseError:
        return Outcome(failed=(f"pytest did not end: {log.name}",))


def outcome(report: str) -> Outcome:
    """Return the outcome in a JUnit report; a test that passed when it ran again has passed."""
    # A test that ran again has a case for each time; the last one counts.
    times = Counter[tuple[str, str]]()
    cases = {}
    for case in ElementTree.fromstring(report).iter("testcase"):  # noqa: S314 (pytest's own file)
        key = (str(case.get("classname")), str(case.get("name")))
        times[key] += 1
        cases[key] = case
    passed, skipped, failed, second_try = 0, Counter[str](), [], []
    for (file, name), case in cases.items():
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            # A file that pytest cannot import is a case without a class.
            failed.append(name if file else f"collection of {name}")
        elif skip is not None:
            skipped[skip.get("message", "").strip()] += 1
        else:
            passed += 1
            if times[file, name] > 1:
                second_try.append(name)
    return Outcome(passed=passed, skipped=dict(skipped), failed=tuple(failed), second_try=tuple(second_try))


def first_on_path(program: Path, name: str, folder: Path) -> Mapping[str, str]:
    """Return an environment whose PATH begins with a folder that has this program under this name."""
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / name
    link.unlink(missing_ok=True)
    link.symlink_to(program.resolve())
    return {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}
