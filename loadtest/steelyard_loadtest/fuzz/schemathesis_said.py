"""schemathesis's words. Pure."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_loadtest.fuzz.model import ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Operations that were tested, requests that were generated, and what failed, a line each."""

    operations: int
    generated: int
    failures: tuple[str, ...]


def parse(output: str) -> Said:
    """Read its summary; zeros where it has none."""
    tested = re.search(r"^\s*Tested: (\d+)", output, re.MULTILINE)
    cases = re.search(r"^\s*(\d+) generated", output, re.MULTILINE)
    failed = re.findall(r"^\s*❌ (.+: \d+)$", output, re.MULTILINE)
    return Said(
        operations=int(tested[1]) if tested else 0,
        generated=int(cases[1]) if cases else 0,
        failures=tuple(failed),
    )


def statuses(events: str) -> Mapping[str, int]:
    """Return how often each status was answered; all of the successes together."""
    counts: Counter[str] = Counter()
    for status in re.findall(r'"status_code":\s*(\d{3})', events):
        counts[ACCEPTED if status.startswith("2") else f"HTTP {status}"] += 1
    return counts
