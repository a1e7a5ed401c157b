"""Who is compared. Pure."""

from dataclasses import dataclass
from typing import Literal

Program = Literal["direct", "nginx", "steelyard", "haproxy", "envoy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to spread requests: a program, and what is written into its configuration."""

    name: str
    title: str
    program: Program
    method: str = ""
    """nginx: the upstream's directive; ours: the picker; HAProxy: `balance`; Envoy: `lb_policy`."""


BASE = "nginx-swrr"
"""Every ratio is against this one, in the same run."""

CONTENDERS = (
    Contender(name="direct", title="no proxy", program="direct"),
    Contender(name=BASE, title="nginx SWRR", program="nginx"),
    Contender(name="nginx-least_conn", title="nginx least_conn", program="nginx", method="least_conn;"),
    Contender(
        name="nginx-random", title="nginx random two", program="nginx", method="random two least_conn;"
    ),
    Contender(name="nginx-fair", title="nginx fair", program="nginx", method="fair;"),
    Contender(name="tengine-vnswrr", title="Tengine vnswrr", program="nginx", method="vnswrr;"),
    Contender(name="vnswrr", title="Steelyard vnswrr", program="steelyard", method="vnswrr"),
    Contender(name="vnswrr2", title="Steelyard vnswrr2", program="steelyard", method="vnswrr2"),
    Contender(name="least_conn", title="Steelyard least_conn", program="steelyard", method="least_conn"),
    Contender(name="peak_ewma", title="Steelyard peak_ewma", program="steelyard", method="peak_ewma"),
    Contender(name="haproxy-roundrobin", title="HAProxy roundrobin", program="haproxy", method="roundrobin"),
    Contender(name="haproxy-leastconn", title="HAProxy leastconn", program="haproxy", method="leastconn"),
    Contender(name="envoy-round_robin", title="Envoy round_robin", program="envoy", method="ROUND_ROBIN"),
    Contender(
        name="envoy-least_request", title="Envoy least_request", program="envoy", method="LEAST_REQUEST"
    ),
)

BY_NAME = {contender.name: contender for contender in CONTENDERS}


def chosen(names: list[str]) -> tuple[Contender, ...]:
    """Return the contenders of these names, in their usual order; `swrr` is short for nginx's.

    Raises ValueError for a name that nobody has.
    """
    full = {name if name in BY_NAME else f"nginx-{name}" for name in names}
    unknown = sorted(full - BY_NAME.keys())
    if unknown:
        raise ValueError(f"{unknown[0].removeprefix('nginx-')}: none of {', '.join(BY_NAME)}")
    return tuple(contender for contender in CONTENDERS if contender.name in full)
