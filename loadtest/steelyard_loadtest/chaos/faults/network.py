"""The network cut between each pair of hosts: nothing passes, and nobody is told so (I/O by the stage)."""

from dataclasses import dataclass

from steelyard_loadtest.chaos.faults import bounds, chosen
from steelyard_loadtest.chaos.faults.chosen import Chosen
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.stage.stage import Stage

GROUP = "network cut for 8 s"

ENDS: dict[str, Chosen] = {
    "edge": chosen.named("nginx"),
    "leader": chosen.leader,
    "standby": chosen.standby,
    "memcached": chosen.named("memcached"),
    "redis": chosen.named("redis"),
    "server-1": chosen.named("server-1"),
}
"""A daemon on each kind of host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two kinds of host, and the bound of their cut. quick: also in the short form."""

    a: str
    b: str
    bound: Bound
    quick: bool = False


def _strangers(a: str, b: str) -> _Pair:
    return _Pair(a=a, b=b, bound=bounds.untouched(bounds.TICKS_S, "they never talk"))


_AGENTS = bounds.AGENT_RETRIES_S + bounds.TICKS_S
_NGINX = bounds.ANSWERS_AGAIN_S + bounds.TICKS_S

PAIRS = (
    _Pair(
        a="edge", b="leader",
        bound=bounds.untouched(bounds.TICKS_S, "tables come by way of Memcached"),
    ),
    _Pair(a="edge", b="standby", bound=bounds.untouched(bounds.TICKS_S, "tables come by way of Memcached")),
    _Pair(
        a="edge", b="memcached", quick=True,
        bound=bounds.untouched(_NGINX, "nginx asks the controllers, and Memcached again after 3 s"),
    ),
    _strangers("edge", "redis"),
    _Pair(
        a="edge", b="server-1",
        bound=bounds.tried_elsewhere(
            bounds.READ_TIMEOUT_S,
            bounds.FAIL_TIMEOUT_S + bounds.TICKS_S,
            "a request on an open connection waits for proxy_read_timeout (3 s), a new connection for "
            "proxy_connect_timeout (1 s); then another server is tried",
        ),
    ),
    _Pair(a="leader", b="standby", bound=bounds.untouched(bounds.TICKS_S, "they meet in Redis alone")),
    _Pair(
        a="leader", b="memcached",
        bound=bounds.untouched(_NGINX, "no table is published; nginx asks the controllers"),
    ),
    _Pair(a="standby", b="memcached", bound=bounds.untouched(bounds.TICKS_S, "it asks only before it leads")),
    _Pair(
        a="leader", b="redis",
        bound=bounds.untouched(bounds.TAKEOVER_S, "the standby takes over; the leader goes on until then"),
    ),
    _Pair(a="standby", b="redis", bound=bounds.untouched(bounds.TICKS_S)),
    _strangers("memcached", "redis"),
    _Pair(
        a="memcached", b="server-1",
        bound=bounds.untouched(_AGENTS, "the server keeps what was learnt; its agent tries again within 8 s"),
    ),
    _strangers("leader", "server-1"),
    _strangers("standby", "server-1"),
    _strangers("redis", "server-1"),
)  # fmt: skip


def _cut(pair: _Pair) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        # Both are chosen before anything is cut: who leads is asked over the network.
        notes["a"], notes["b"] = (stage.host_of(ENDS[end](stage)) for end in (pair.a, pair.b))
        stage.cut(str(notes["a"]), str(notes["b"]))

    def end(stage: Stage, notes: dict[str, object]) -> None:
        stage.mend(str(notes["a"]), str(notes["b"]))

    return Fault(
        name=f"{pair.a} | {pair.b}", group=GROUP, begin=begin, end=end, lasts_s=bounds.AWAY_S,
        bound=pair.bound, quick=pair.quick,
    )  # fmt: skip


def faults() -> list[Fault]:
    """Return a cut for each pair."""
    return [_cut(pair) for pair in PAIRS]
