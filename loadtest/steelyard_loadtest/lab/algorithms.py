"""Everything that can be compared: a balancer, its method, and what it is told. Pure."""

from dataclasses import dataclass
from itertools import product
from typing import Literal

Program = Literal["direct", "nginx", "steelyard", "haproxy", "envoy"]
Weights = Literal["equal", "true", "reversed"]

LAWS = ("steelyard", "paper", "cswrr", "static")
PICKERS = ("vnswrr2", "vnswrr", "least_conn", "peak_ewma", "roundrobin", "swrr", "chash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One way to spread requests. It has what `machine.found.Balancer` asks for."""

    name: str
    title: str
    program: Program
    method: str = ""
    """nginx: the upstream's directive; ours: the picker; HAProxy: `balance`; Envoy: `lb_policy`."""
    law: str = ""
    """The controller's law; "" where no controller runs."""
    weights: Weights = "equal"
    """What the operator has written down: nothing, the scenario's weights, or those the wrong way round."""
    backwards: bool = False
    """The servers stand in the configuration in the opposite order."""
    connections: int | None = None
    """nginx's worker_connections; None: enough for every level."""
    mode: Literal["http", "tcp"] = "http"
    fed_by: Literal["", "agent-check", "orca"] = ""
    """How a balancer that is not ours learns of the agents' samples."""

    @property
    def ours(self) -> bool:
        """Say whether our data plane picks."""
        return self.program == "steelyard"

    @property
    def told(self) -> bool:
        """Say whether somebody told it the servers' capacities. One that is not is *online*."""
        return self.weights != "equal"

    @property
    def adapts(self) -> bool:
        """Say whether its shares depend on anything measured."""
        return self.ours or bool(self.fed_by) or self.method in _ADAPTIVE


_ADAPTIVE = ("least_conn;", "random two least_conn;", "fair;", "leastconn", "LEAST_REQUEST")

DEFAULT = "steelyard-steelyard-vnswrr2"
"""The default law with the default picker."""

_NGINX = (
    Algorithm(name="nginx-rr", title="nginx round robin", program="nginx"),
    Algorithm(name="nginx-wrr", title="nginx weighted round robin", program="nginx", weights="true"),
    Algorithm(
        name="nginx-wrr-reversed", title="nginx weighted round robin, weights reversed", program="nginx",
        weights="reversed",
    ),
    Algorithm(name="nginx-ip_hash", title="nginx ip_hash", program="nginx", method="ip_hash;"),
    Algorithm(
        name="nginx-ip_hash-backwards", title="nginx ip_hash, servers in reverse order", program="nginx",
        method="ip_hash;", backwards=True,
    ),
    Algorithm(name="nginx-least_conn", title="nginx least_conn", program="nginx", method="least_conn;"),
    Algorithm(
        name="nginx-wleast_conn", title="nginx weighted least_conn", program="nginx", method="least_conn;",
        weights="true",
    ),
    Algorithm(
        name="nginx-hash", title="nginx hash consistent", program="nginx",
        method="hash $request_id consistent;",
    ),
    Algorithm(
        name="nginx-random2", title="nginx random two", program="nginx", method="random two least_conn;"
    ),
    Algorithm(name="nginx-fair", title="nginx fair", program="nginx", method="fair;"),
    Algorithm(
        name="nginx-rr-768", title="nginx round robin, 768 connections", program="nginx", connections=768
    ),
)  # fmt: skip
_OURS = tuple(
    Algorithm(
        name=f"steelyard-{law}-{picker}",
        title=f"Steelyard {law}, {picker}",
        program="steelyard",
        method=picker,
        law=law,
    )
    for law, picker in product(LAWS, PICKERS)
)
_HAPROXY = (
    Algorithm(name="haproxy-roundrobin", title="HAProxy roundrobin", program="haproxy", method="roundrobin"),
    Algorithm(name="haproxy-leastconn", title="HAProxy leastconn", program="haproxy", method="leastconn"),
    Algorithm(
        name="haproxy-leastconn-agent", title="HAProxy leastconn, our agent-check", program="haproxy",
        # HAProxy reports no traffic, without which only this law leaves the baselines (docs/haproxy.md).
        method="leastconn", law="paper", fed_by="agent-check",
    ),
    Algorithm(
        name="haproxy-tcp", title="HAProxy roundrobin, TCP", program="haproxy", method="roundrobin",
        mode="tcp",
    ),
)  # fmt: skip
_ENVOY = (
    Algorithm(name="envoy-round_robin", title="Envoy round_robin", program="envoy", method="ROUND_ROBIN"),
    Algorithm(
        name="envoy-least_request", title="Envoy least_request", program="envoy", method="LEAST_REQUEST"
    ),
    Algorithm(
        name="envoy-cswrr", title="Envoy client_side_weighted_round_robin", program="envoy",
        method="CLIENT_SIDE_WEIGHTED_ROUND_ROBIN", fed_by="orca",
    ),
)  # fmt: skip

ALGORITHMS = (
    Algorithm(name="direct", title="no balancer", program="direct"),
    *_NGINX,
    *_OURS,
    *_HAPROXY,
    *_ENVOY,
)

BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}


def named(name: str) -> Algorithm:
    """Return the algorithm of this name; `steelyard` is short for the default.

    Raises ValueError, which names those that there are.
    """
    full = DEFAULT if name == "steelyard" else name
    if full not in BY_NAME:
        raise ValueError(f"there is no algorithm {name!r}; there are: steelyard, {', '.join(BY_NAME)}")
    return BY_NAME[full]
