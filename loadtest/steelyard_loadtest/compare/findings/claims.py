"""A source's claims as TOML text: its tables, its findings, and by which comparisons each is judged.

    columns = ["requests_per_s", "p99_ms"]          # of the tables below; nan: not published
    [algorithms]                                    # its names, and what stands for them here
    RR = "nginx-rr"
    IPH-srv1 = { faster = ["nginx-ip_hash", "nginx-ip_hash-backwards"] }
    [published.RR]
    100 = [84.80, 1160.26]                          # at this level
    [[findings]]
    statement = "..."
    checks = [{ kind = "ratio", metric = "requests_per_s", of = "RR", over = ["LC", "WLC"], at = 100 }]
    beside = [{ of = "Steelyard" }]
    why = "{swings}"                                # a text of the table `remarks`, which several share

A ratio of lists is one comparison for each of their members. What stands beside and names no kind is the
finding's first comparison but for what it says. Of an algorithm in another one's place,
`nginx (there: vproxy)`, the published figure is the other's.
"""

import math
import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from steelyard_loadtest.compare.findings.checks import Terms, as_list, check
from steelyard_loadtest.compare.findings.finding import Finding, Source
from steelyard_loadtest.compare.findings.measured_figures import OneOf, Who, with_derived

_LISTS = ("of", "over", "at")


def parse(text: str) -> Source:
    """Read a source. Raises KeyError, TypeError or ValueError where it is not as it must be."""
    document = tomllib.loads(text)
    algorithms = {name: _who(ours) for name, ours in document["algorithms"].items()}
    published = {
        name: {
            float(level): with_derived({
                metric: float(value)
                for metric, value in zip(document["columns"], row, strict=True)
                if not math.isnan(value)
            })
            for level, row in rows.items()
        }
        for name, rows in document.get("published", {}).items()
    }  # fmt: skip
    terms = Terms(scenario=document["scenario"], algorithms=algorithms, published=published)
    return Source(
        title=document["title"],
        what=document["what"],
        mirrored=document["mirrored"],
        names=document.get("names", document["algorithms"]),
        findings=tuple(_finding(entry, terms, document.get("remarks", {})) for entry in document["findings"]),
        published=published,
    )


def _finding(entry: Mapping[str, Any], terms: Terms, remarks: Mapping[str, str]) -> Finding:
    checks = entry.get("checks", [])
    beside = [told if "kind" in told else {**checks[0], **told} for told in entry.get("beside", ())]
    texts = {name: text.format_map(remarks) for name, text in entry.items() if isinstance(text, str)}
    return Finding(
        **{**entry, **texts}
        | {
            key: tuple(check(told, terms) for each in entries for told in _one_by_one(each))
            for key, entries in (("checks", checks), ("beside", beside))
        }
    )


def _one_by_one(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a ratio for each member of its lists; every other kind has its own use of them."""
    if entry["kind"] != "ratio":
        return [entry]
    lists = [as_list(entry[key]) for key in _LISTS]
    return [{**entry, **dict(zip(_LISTS, members, strict=True))} for members in product(*lists)]


def _who(ours: str | Mapping[str, list[str]]) -> Who:
    if isinstance(ours, str):
        return ours
    ((pick, algorithms),) = ours.items()
    return OneOf(algorithms=tuple(algorithms), pick=pick)  # type: ignore[arg-type]  # checked by its tests


SOURCES = tuple(
    parse(Path(__file__).with_name("files").joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("locust_study", "entropy_paper", "ns3", "vproxy", "tengine")
)
"""The five sources, from the files beside this one."""
