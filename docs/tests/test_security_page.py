"""Every claim of docs/guides/security.md names the tests that prove it, and they exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/security.md").read_text(encoding="utf-8")
TEST = re.compile(r"`([^`\s]+\.py)::(test_\w+)`")

# The first heads of the tables with claims. The section about gaps has none.
TABLES = ("claim", "the attacker", "the attacker holds")


def rows() -> list[tuple[str, str, str]]:
    """Return each claim: its section, its text, and the cell with its tests."""
    claims, section, header = [], "", ""
    for line in PAGE.splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = ""
        elif not header:
            header = cells[0]
            if header in TABLES:
                assert cells[-1] == "proved by", line
        elif header in TABLES and set(line) - set("|- "):
            claims.append((section, " | ".join(cells[:-1]), cells[-1]))
    return claims


CLAIMS = rows()


def test_the_page_makes_claims_about_everything_that_can_be_reached() -> None:
    assert {section for section, _, _ in CLAIMS} == {
        "Clients of the load balancer",
        "Access to Memcached",
        "Write access to a namespace that discovery watches",
        "Access to Redis",
        "Access to the API",
        "Access to the agent-check or the agent's port",
        "Access to the xDS port",
        "Control over an agent's indicator",
        "Other users of a machine, and readers of logs",
        "A compromised part",
        "How it is shipped",
    }
    assert "## What is not covered\n" in PAGE


@pytest.mark.parametrize(("claim", "proof"), [(claim, proof) for _, claim, proof in CLAIMS])
def test_a_claim_names_tests_that_exist(claim: str, proof: str) -> None:
    named = TEST.findall(proof)
    assert named, claim
    # Nothing else may be there: a misspelt test would not be looked for.
    assert re.sub(r"[,\s]", "", TEST.sub("", proof)) == "", proof
    for path, name in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{path} has no {name}"


def test_every_test_of_security_is_named() -> None:
    tests = {
        f"{path.relative_to(ROOT)}::{name}"
        for folder in ("*/tests", "loadtest/*/tests")
        for path in ROOT.glob(f"{folder}/**/test_security_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    # These are about the tests and about this page.
    about = {"test_security_page.py", "test_the_search_finds_a_secret_however_it_is_written"}
    unnamed = {test for test in tests if f"`{test}`" not in PAGE and not any(each in test for each in about)}
    assert unnamed == set()
