"""The clusters that evidence_clusters.toml declares, and the simulation of each under each algorithm."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from steelyard_simulator import model
from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, Server, Step, Work
from steelyard_simulator.simulated_server import speed_edges
from steelyard_simulator.studies.measures import capacities

DECLARED = Path(__file__).with_name("evidence_clusters.toml")

REFERENCE, NGINX_LEAST_CONN = "nginx least_conn, true weights", "nginx least_conn"
LEAST_TIME = "nginx least_time"
CSWRR, WEIGHTS_ALONE, DEFAULT = "Envoy CSWRR", "steelyard, vnswrr", "steelyard, vnswrr2"
HOT_COLD, OUR_LEAST_CONN = "steelyard, hcl", "steelyard, least_conn"
OUR_LEAST_CONN_EQUAL = "our least_conn, equal weights"
TRUE_WEIGHTS_ALONE, TRUE_DEFAULT = "true weights, vnswrr", "true weights, vnswrr2"

BEHIND_16, BEHIND_16_FASTER = f"{DEFAULT} behind 16", f"{DEFAULT} behind 16, 5 % of a core"

BEHIND: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        f"{DEFAULT} behind 4": {"balancers": 4, "exchange_s": 0.007},
        BEHIND_16: {"balancers": 16, "exchange_s": 0.007},
        BEHIND_16_FASTER: {"balancers": 16, "exchange_s": 0.004},
    }
)
"""Load balancers that exchange their requests in flight, as often as 2 % (or 5 %) of a core allows with a
dozen servers: docs/decisions/0025-others-in-flight.md."""

ALGORITHMS: Mapping[str, Balancing] = MappingProxyType(
    {
        REFERENCE: Balancing(law=None, picker="leastconn", true_weights=True),
        NGINX_LEAST_CONN: Balancing(law=None, picker="leastconn"),
        LEAST_TIME: Balancing(law=None, picker="leasttime"),
        CSWRR: Balancing(law="cswrr", picker="vnswrr"),
        "Envoy least request": Balancing(law=None, picker="lr"),
        "P2C peak EWMA": Balancing(law=None, picker="peakewma"),
        "Prequal": Balancing(law=None, picker="prequal"),
        "Linkerd peak EWMA": Balancing(law=None, picker="linkerd-peakewma"),
        "Traefik leasttime": Balancing(law=None, picker="traefik-leasttime"),
        "Angie least_time": Balancing(law=None, picker="angie-leasttime"),
        "Angie feedback": Balancing(law=None, picker="angie-feedback", loop="spare-capacity"),
        "Robinhood": Balancing(law=None, picker="edf", loop="robinhood"),
        "KnapsackLB": Balancing(law=None, picker="edf", loop="knapsacklb"),
        WEIGHTS_ALONE: Balancing(picker="vnswrr"),
        DEFAULT: Balancing(picker="vnswrr2"),
        HOT_COLD: Balancing(picker="hcl"),
        OUR_LEAST_CONN: Balancing(picker="least_conn"),
        TRUE_WEIGHTS_ALONE: Balancing(law=None, picker="vnswrr", true_weights=True),
        TRUE_DEFAULT: Balancing(law=None, picker="vnswrr2", true_weights=True),
        OUR_LEAST_CONN_EQUAL: Balancing(law=None, picker="least_conn"),
        **dict.fromkeys(BEHIND, Balancing(picker="vnswrr2")),
    }
)
"""By name in the report. Without a law and without true weights, all servers have the same weight."""

OURS = (WEIGHTS_ALONE, DEFAULT, HOT_COLD, OUR_LEAST_CONN)
"""The default law, by picker."""

QUIET_S, QUIET = 12.0, 1 / 3
"""Length and part of the load of the warm-up's quiet beginning. Envoy's CSWRR has no weights for ten seconds,
and no algorithm shall enter the measurement with a queue from that time. A cluster without a warm-up skips
it."""

DRAIN_S = 10.0
"""Seconds after the last request; an unanswered request has then waited longer than any client would."""

# Sizes change in such steps. Phases at multiples of the golden ratio are spread evenly for any number of
# servers.
STEP_S, GOLDEN = 0.5, (math.sqrt(5) - 1) / 2

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A declared cluster: the event it represents, and its case without the balancing.

    later   declared after the first 32, which the targets and the means cover
    """

    name: str
    what: str
    load: float
    case: Case
    later: bool


@dataclass(frozen=True, slots=True)
class EvidenceTrial:
    """A cluster and an algorithm by their names."""

    cluster: str
    algorithm: str

    def case(self) -> Case:
        """Return the simulation."""
        behind, balancing = BEHIND.get(self.algorithm, {}), ALGORITHMS[self.algorithm]
        return replace(clusters()[self.cluster].case, balancing=balancing, **behind)


@cache
def clusters(declared: Path = DECLARED) -> Mapping[str, Cluster]:
    """Return the clusters that a file declares, by name, in their order."""
    first = tomllib.loads(declared.read_text(encoding="utf-8"))
    later = first.pop("later", {})
    return MappingProxyType(
        {
            name: _cluster(name, row["what"], row["server"], later=name in later, **row["case"])
            for name, row in (first | later).items()
        }
    )


def _cluster(
    name: str, what: str, server: list[Row], *, later: bool, load: float,
    bursts: Sequence[tuple[float, float]] = (), duration_s: float = 60.0, warmup_s: float = 15.0,
    drain_s: float = DRAIN_S, balancers: int = 1, upstreams: int = 1,
    silent_s: Sequence[float] = (0.0, 0.0), held: float = 0.0, **work: float | Row,
) -> Cluster:  # fmt: skip
    kinds = [kind for kind in server for _ in range(kind.get("times", 1))]
    servers = tuple(_server(kind, phase=place * GOLDEN, end_s=duration_s) for place, kind in enumerate(kinds))
    case = Case(
        servers=servers, clients=OpenClients(rate_per_s=1.0),
        work=Work(held=held, **{stage: _drawn(declared) for stage, declared in work.items()}),
        duration_s=duration_s + drain_s, warmup_s=warmup_s, balancers=balancers, upstreams=upstreams,
        delays=model.Delays(silent_s=(silent_s[0], silent_s[1])), in_phase=True,
    )  # fmt: skip
    edges = {edge for each in servers for edge in speed_edges(each) if edge < duration_s}
    least = float(capacities(case, np.array(sorted(edges))).sum(axis=1).min())
    first = [(0.0, load * QUIET), (QUIET_S, load)] if warmup_s else [(0.0, load)]
    # After the last request nothing arrives, so that requests in flight can end.
    (_, begin), *changes = ((at_s, then * least) for at_s, then in (*first, *bursts, (duration_s, 0.0)))
    clients = OpenClients(rate_per_s=begin, changes=tuple(changes))
    return Cluster(name=name, what=what, load=load, case=replace(case, clients=clients), later=later)


def _drawn(declared: float | Row) -> Draw:
    return Draw(**declared) if isinstance(declared, Mapping) else Draw(mean_s=declared)


def _server(declared: Row, *, phase: float, end_s: float) -> Server:
    fields = {name: value for name, value in declared.items() if name not in ("times", "drift", "cold")}
    for name, kind in (("background", model.Background), ("steps", Step), ("failing", model.Failing)):
        fields[name] = tuple(kind(**each) for each in declared.get(name, ()))
    fields["away"] = tuple((start_s, until_s) for start_s, until_s in declared.get("away", ()))
    if "latency" in declared:
        fields["latency"] = _drawn(declared["latency"])
    if "drift" in declared:
        fields["steps"] = tuple(_drift(phase, end_s, **declared["drift"]))
    if "cold" in declared:
        fields["steps"] = tuple(_warming(**declared["cold"]))
    return Server(**fields)


def _drift(
    phase: float, end_s: float, period_s: float, factor: float, *, reported: bool = False
) -> Iterator[Step]:
    for at_s in np.arange(0.0, end_s, STEP_S).tolist():
        now = factor ** math.sin(2 * math.pi * (at_s / period_s + phase))
        yield Step(at_s=at_s, factor=now, reported=reported)


def _warming(at_s: float, start: float, over_s: float) -> Iterator[Step]:
    steps = int(over_s / STEP_S)
    for at in range(steps + 1):
        yield Step(at_s=at_s + at * STEP_S, factor=start + (1 - start) * at / steps)
