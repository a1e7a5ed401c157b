"""The table of an upstream's peers: weights, shares, utilization, traffic. Pure."""

from steelyard_controller.cli.api_documents import Live, Overview, Table, TablePeer
from steelyard_controller.cli.terminal.numbers import UNKNOWN, bar, figure, fixed, percent
from steelyard_controller.cli.terminal.style import STATE_STYLES, Look
from steelyard_controller.cli.terminal.text_table import Column, Field, table

BAR_WIDTH = 12

BUILT_IN_INDICATORS = ("cpu", "net", "io", "mem")

# By indicator; a further one ranks as memory does, the first of the four to leave a narrow window.
RANKS = {"cpu": 1, "net": 8, "io": 8, "mem": 7}


def of_overview(document: Overview, look: Look) -> list[str]:
    """Return a line for each peer of an overview."""
    largest = max((peer.share for peer in document.peers), default=0.0)
    high = (document.thresholds or {}).get("H") if document.alert else None
    columns: tuple[Column[Live], ...] = (
        Column("PEER", lambda peer: Field(peer.id, "bold")),
        Column("STATE", _why_state),
        Column("WEIGHT", lambda peer: str(peer.weight), right=True),
        Column("SHARE %", lambda peer: percent(peer.share, 1), right=True),
        Column("", lambda peer: _bar(peer.share, largest, look), rank=5),
        Column("PIN %", _pin, right=True, rank=2),
        Column("SCORE", lambda peer: _score(peer.score, high), right=True, rank=6),
        *(_utilization(name) for name in dict.fromkeys([*BUILT_IN_INDICATORS, *document.indicators])),
        Column("DONE/tick", lambda peer: figure(peer.completed_per_tick), right=True, rank=9),
        Column("FAILED/tick", _failed, right=True, rank=10),
        Column("IN FLIGHT", lambda peer: figure(peer.in_flight), right=True, rank=11),
        Column("WAITING", lambda peer: "" if peer.waiting is None else figure(peer.waiting), True, 11),
        Column("OPEN", lambda peer: "" if peer.open is None else figure(peer.open), True, 11),
        Column("LATENCY ms", lambda peer: figure(peer.latency_ms), right=True, rank=4),
        Column("SAMPLE s", _sample_age, right=True, rank=3),
        Column("BASELINE", lambda peer: str(peer.baseline), right=True, rank=12),
        Column("ADDRESS", lambda peer: peer.address, rank=13),
    )
    return table(columns, document.peers, look)


def of_table(document: Table, look: Look) -> list[str]:
    """Return a weight table as it was published: its order, law and picker, then a line for each peer."""
    about = (
        f"{document.upstream}  table {document.term}.{document.generation}, "
        f"law {document.law}, picker {document.picker}"
    )
    shares = dict(zip((peer.id for peer in document.peers), shares_of(document), strict=True))
    largest = max(shares.values(), default=0.0)
    columns: tuple[Column[TablePeer], ...] = (
        Column("PEER", lambda peer: peer.id),
        Column("STATE", lambda peer: _state(peer.state)),
        Column("WEIGHT", lambda peer: str(peer.weight), right=True),
        Column("SHARE %", lambda peer: percent(shares[peer.id], 1), right=True),
        Column("", lambda peer: _bar(shares[peer.id], largest, look), rank=2),
        Column("BASELINE", lambda peer: str(peer.baseline), right=True, rank=1),
        Column("ADDRESS", lambda peer: peer.address, rank=3),
    )
    return [look.line(about, "bold"), *table(columns, document.peers, look)]


def shares_of(document: Table) -> list[float]:
    """Return by peer the share of the requests that its weight intends.

    Backups count only while no other peer is up, as in the data plane.
    """
    serving = "up" if any(peer.state == "up" for peer in document.peers) else "backup"
    total = sum(peer.weight for peer in document.peers if peer.state == serving)
    return [peer.weight / total if peer.state == serving else 0.0 for peer in document.peers]


def _utilization(name: str) -> Column[Live]:
    heading, rank = f"{name.upper()} %", RANKS.get(name, RANKS["mem"])
    return Column(heading, lambda peer: percent((peer.utilization or {}).get(name)), right=True, rank=rank)


def _pin(peer: Live) -> Field:
    return Field("" if peer.pin is None else f"{peer.pin:g}", "warn")


def _score(score: float | None, high: float | None) -> Field:
    overloaded = high is not None and score is not None and score <= high
    return Field(fixed(score, 2), "bad" if overloaded else "plain")


def _failed(peer: Live) -> Field:
    return Field(figure(peer.failed_per_tick), "bad" if peer.failed_per_tick else "plain")


def _sample_age(peer: Live) -> Field:
    age_s = UNKNOWN if peer.sample_age_s is None else f"{peer.sample_age_s:.1f}"
    return Field(age_s, "warn" if peer.silent else "plain")


def _why_state(peer: Live) -> Field:
    """Return the state, or the cause of it, if that was no person."""
    if peer.leaving and peer.state == "up":
        return Field("leaving", "warn")
    if (peer.state, peer.pod) in {("down", "unready"), ("drain", "terminating")}:
        return Field(peer.pod or "", STATE_STYLES[peer.state])
    return _state(peer.state)


def _state(state: str) -> Field:
    return Field(state, STATE_STYLES.get(state, "plain"))


def _bar(share: float, largest: float, look: Look) -> Field:
    """Return a bar; the largest share has the full length, so that hundreds of servers still differ."""
    ratio = share / largest if largest > 0 else 0.0
    return Field(bar(ratio, BAR_WIDTH, ascii_only=look.ascii_only), "bar")
