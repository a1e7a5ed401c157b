"""What schemathesis prints. Pure."""

import re
from collections import Counter
from collections.abc import Mapping

from steelyard_resilience.fuzz.target import ACCEPTED


def parse_schemathesis(output: str) -> tuple[int, int, list[str]]:
    """Return operations tested, requests generated (0 without a summary), and failures, a line each."""
    tested = re.search(r"^\s*Tested: (\d+)", output, re.MULTILINE)
    cases = re.search(r"^\s*(\d+) generated", output, re.MULTILINE)
    failed = re.findall(r"^\s*❌ (.+: \d+)$", output, re.MULTILINE)
    return int(tested[1]) if tested else 0, int(cases[1]) if cases else 0, failed


def statuses(events: str) -> Mapping[str, int]:
    """Return how often each status was answered; all of the successes together."""
    return Counter(
        ACCEPTED if status.startswith("2") else f"HTTP {status}"
        for status in re.findall(r'"status_code":\s*(\d{3})', events)
    )
