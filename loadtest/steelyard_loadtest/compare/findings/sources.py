"""The five sources: what each says, a sentence a finding, and by which comparisons it is judged.

A source's file, one of those in files/, has its names for what stands for them here, its figures by name and
level in the order of `columns` (nan: not published), and a table a finding, all of whose keys may be absent:

    [findings."What it says. (where it says so)"]
    checks = ["requests_per_s: RR / LC at 100"]         lines of `comparisons`
    beside = ["requests_per_s: Steelyard / RR at 100"]  ours in the same place, on which no verdict hangs
    note = "what a reader must know to compare"
    cannot = "instead of checks: why it cannot be measured here at all"
    why = "why it did not reproduce here, written after the measurements and shown only then"

Several findings share a text of the table `remarks` by its name: why = "{swings}".
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard_loadtest.compare.findings.comparisons import UNKNOWN, compare
from steelyard_loadtest.compare.findings.evidence import Figures, Terms, with_derived


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence of a source, and the keys of its table."""

    statement: str
    checks: Sequence[str] = ()
    beside: Sequence[str] = ()
    note: str = ""
    cannot: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A publication. mirrored: how its experiment is done here."""

    title: str
    what: str
    mirrored: str
    terms: Terms
    findings: Sequence[Finding]


def parse(text: str) -> Source:
    """Read a source. Raises KeyError, TypeError or ValueError where it is not as it must be."""
    document = tomllib.loads(text)
    published = {
        name: {float(level): _figures(document["columns"], row) for level, row in rows.items()}
        for name, rows in document.get("published", {}).items()
    }
    terms = Terms(
        **{name: document[name] for name in ("scenario", "unit", "algorithms")}, published=published
    )
    remarks = document.get("remarks", {})
    findings = [_finding(statement, keys, remarks) for statement, keys in document["findings"].items()]
    for finding in findings:
        for line in (*finding.checks, *finding.beside):
            if any(one.theirs == UNKNOWN for one in compare(line, terms, {})) and line in finding.checks:
                raise ValueError(f"`{line}`: nothing was published to judge it by")
    texts = {name: document[name] for name in ("title", "what", "mirrored")}
    return Source(**texts, terms=terms, findings=findings)


def _figures(columns: Sequence[str], row: Sequence[float]) -> Figures:
    known = {column: value for column, value in zip(columns, row, strict=True) if not math.isnan(value)}
    return with_derived(known)


def _finding(statement: str, keys: Mapping[str, Any], remarks: Mapping[str, str]) -> Finding:
    texts = {name: text.format_map(remarks) for name, text in keys.items() if isinstance(text, str)}
    return Finding(**{"statement": statement, **keys, **texts})


SOURCES = tuple(
    parse(Path(__file__).with_name("files").joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("locust_study", "entropy_paper", "ns3", "vproxy", "tengine")
)
