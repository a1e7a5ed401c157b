"""libFuzzer's words. Pure."""

import re
from dataclasses import dataclass

_LINE = re.compile(r"^#(\d+)\s+\S+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
_RUNS = re.compile(r"^Done (\d+) runs", re.MULTILINE)
_SAVED = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Runs, edges of the code and features (edges by how often) reached, inputs kept, and a crash's file."""

    runs: int
    edges: int
    features: int
    corpus: int
    crash: str | None

    @property
    def reached(self) -> str:
        """Return the coverage in words."""
        return f"{self.edges} edges, {self.features} features" if self.edges else ""


def parse(output: str) -> Said:
    """Read what it wrote; zeros where it says nothing."""
    lines = _LINE.findall(output)
    last = [int(figure) for figure in lines[-1]] if lines else [0, 0, 0, 0]
    done, crash = _RUNS.search(output), _SAVED.search(output)
    return Said(
        runs=int(done[1]) if done else last[0],
        edges=last[1],
        features=last[2],
        corpus=last[3],
        crash=crash[1] if crash else None,
    )
