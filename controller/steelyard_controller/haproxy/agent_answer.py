"""The answers to HAProxy's agent-check: a line in, a line out.

Pure. The protocol is HAProxy's (configuration manual, 5.2, "agent-check"): words
that change the server, then a text for people after a `#`. A server's weight in
HAProxy is an integer of 0..256, rounded down. It is set as a percentage of the
weight in haproxy.cfg:

    floor(c_j percent / 100) = t_j     c_j: the configured weight; t_j: steelyard_protocol.haproxy_weights
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_protocol import wire
from steelyard_protocol.haproxy_weights import MAX_HAPROXY_WEIGHT

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.tick.outcome import Outcome

# The weight in haproxy.cfg if the question has none; then the percentage is the weight.
DEFAULT_CONFIGURED_WEIGHT = 100

_QUESTION = re.compile(
    rf"(?P<upstream>{wire.NAME.pattern})/(?P<peer>{wire.NAME.pattern})(?:[ \t]+(?P<weight>[0-9]{{1,3}}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a server; `configured` is its weight in haproxy.cfg, 1..256."""

    upstream: str
    peer: str
    configured: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The parts of a peer's answer: the words, its weight in HAProxy (1..256), a text for people."""

    words: str
    weight: int | None
    why: str


def question(line: bytes) -> Question | None:
    """Read `upstream/peer` or `upstream/peer weight`; return None for anything else."""
    words = _QUESTION.fullmatch(line.decode("ascii", "replace").strip(" \t\r\n"))
    if words is None:
        return None
    configured = DEFAULT_CONFIGURED_WEIGHT if words["weight"] is None else int(words["weight"])
    if not 1 <= configured <= MAX_HAPROXY_WEIGHT:
        return None
    return Question(upstream=words["upstream"], peer=words["peer"], configured=configured)


def rows(outcome: Outcome, declaration: Declaration, weights: Mapping[str, int]) -> Mapping[str, Row]:
    """Return the parts of each peer's answer, with these weights in HAProxy.

    `declaration` distinguishes a person's state from a pod's.
    """
    by_person = {peer.id for peer in declaration.upstream.peers if peer.state != "up"}
    pods = {peer for peer in declaration.pods if peer not in by_person}
    return {
        peer.id: _row(outcome, peer.id, peer.state, weights[peer.id], is_pods=peer.id in pods)
        for peer in outcome.table.peers
    }


def answer(row: Row, configured: int) -> bytes:
    """Return the line for a peer with the weight `configured` in haproxy.cfg."""
    percent = "" if row.weight is None else f" {_percent(row.weight, configured)}%"
    return line(f"{row.words}{percent}", row.why)


def line(words: str, why: str) -> bytes:
    """Return an answer and its text for people, which HAProxy shows on its statistics page.

    Words that HAProxy does not know change nothing.
    """
    comment = f"#{why}" if why else ""
    return f"{' '.join(filter(None, (words, comment)))}\n".encode("ascii", "replace")


def _row(outcome: Outcome, peer: str, state: str, weight: int, *, is_pods: bool) -> Row:
    if state == "down":
        why = "its pod is not ready" if is_pods else "a person took it down in Steelyard"
        return Row(words="down", weight=None, why=why)
    if state == "drain":
        why = "its pod is being deleted" if is_pods else "a person drains it in Steelyard"
        return Row(words="up drain", weight=None, why=why)
    return Row(words="up ready", weight=weight, why=_agent_remark(outcome, peer))


def _agent_remark(outcome: Outcome, peer: str) -> str:
    received = outcome.inbox.samples.get(peer)
    if received is None:
        return "no sample yet"
    if received.message.leaving:
        return "its agent was told to stop"
    silent = outcome.is_silent(received)
    return f"no sample for {outcome.now_s - received.arrived_s:.0f} s" if silent else ""


def _percent(weight: int, configured: int) -> int:
    """Return the percentage of `configured`, at least 1, that gives the weight nearest to `weight`."""
    below = 100 * weight // configured
    possible = [percent for percent in (below, below + 1) if configured * percent // 100 >= 1]
    return min(possible, key=lambda percent: abs(configured * percent // 100 - weight))
