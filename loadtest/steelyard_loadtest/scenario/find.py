"""Finds a scenario's file: one of ours by its name, or any by its path."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.scenario.file import ScenarioError, parse

FILES = Path(__file__).with_name("files")

EXPERIMENTS = ("paper", "report", "slow-one", "proxy-cost")
"""The experiments of the five sources; Tengine's is `steelyard-loadtest dataplane`."""

ORDER = ("report", "paper", "slow-one", "noisy-neighbour", "io-bound", "churn", "proxy-cost")
"""The order in which `all` runs them: the sources' first."""

BREAKERS = (
    "fails-fast",
    "slow-then-well",
    "cold-server",
    "all-busy",
    "takeover",
    "cold-cache",
    "two-kinds",
    "busy-wait",
)
"""Scenarios that break others: each is from a public report, with pass marks (docs/research/breakers.md)."""

NOT_IN_ALL = (
    "neighbour-near-capacity",
    "drift",
    "burnt-haproxy",
    "burnt-envoy",
    "worker-pool",
    "many-balancers",
    "zones",
    "mixed-fleet",
    *BREAKERS,
)
"""Scenarios that are not in `all`: with them `make report` would take over 25 minutes."""

NAMES = (*ORDER, *NOT_IN_ALL)

SETS = {"all": ORDER, "breakers": BREAKERS, "sources": EXPERIMENTS}
"""Words that stand for several scenarios."""


def expanded(words: Iterable[str]) -> tuple[str, ...]:
    """Return the scenarios' names, each once, with those that a word of SETS stands for in its place."""
    return tuple(dict.fromkeys(name for word in words for name in SETS.get(word, (word,))))


def find_all(words: Sequence[str], *, quick: bool) -> tuple[Scenario, ...]:
    """Read the scenarios that these words stand for. Raises ScenarioError.

    Those that only `sources` stands for have the sources' own algorithms.
    """
    otherwise = expanded(word for word in words if word != "sources")
    only_sources = set(expanded(words)) - set(otherwise)
    return tuple(find(name, quick=quick, sources=name in only_sources) for name in expanded(words))


def find(name: str, *, quick: bool, sources: bool = False) -> Scenario:
    """Read the scenario of this name, or in this file. Raises ScenarioError.

    sources: with the algorithms of the sources' experiment, unless quick.
    """
    path = Path(name) if name.endswith(".toml") else FILES / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        if name.endswith(".toml"):
            raise ScenarioError(f"{name} cannot be read: {error}") from None
        known = ", ".join((*NAMES, *SETS))
        raise ScenarioError(f"there is no scenario {name!r}; there are {known}, or a FILE.toml") from None
    return parse(path.stem, text, quick=quick, sources=sources)
