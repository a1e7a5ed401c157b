"""A source's claims as TOML text: its tables, its findings, and by which comparisons each is judged.

    columns = ["requests_per_s", "p99_ms"]          # of the tables below; nan: not published
    [algorithms]                                    # its names, and what stands for them here
    RR = "nginx-rr"
    IPH-srv1 = { faster = ["nginx-ip_hash", "nginx-ip_hash-backwards"] }
    [published.RR]
    100 = [84.80, 1160.26]                          # at this level
    [[findings]]
    statement = "..."
    checks = [{ kind = "ratio", metric = "requests_per_s", of = "RR", over = "LC", at = 100 }]

Of an algorithm in another one's place, `nginx (there: vproxy)`, the published figure is the other's.
"""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path

from steelyard_loadtest.compare.findings.checks import Terms, check
from steelyard_loadtest.compare.findings.finding import Finding, Source
from steelyard_loadtest.compare.findings.measured_figures import OneOf, Who, with_derived


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
        findings=tuple(
            Finding(
                **entry
                | {
                    key: tuple(check(told, terms) for told in entry.get(key, ()))
                    for key in ("checks", "beside")
                }
            )
            for entry in document["findings"]
        ),
        published=published,
    )


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
