"""The table of an upstream's peers: weights, shares, utilization, traffic. Pure."""

from collections.abc import Sequence

from steelyard_controller.cli.api_documents import Live, Overview, Table
from steelyard_controller.cli.terminal.numbers import UNKNOWN, bar, figure, fixed, percent
from steelyard_controller.cli.terminal.style import STATE_STYLES, Look, Style
from steelyard_controller.cli.terminal.text_table import Column, Field, table

BAR_WIDTH = 12

FOUR = ("cpu", "net", "io", "mem")

# As soon as memory's, the least of the four that leave a narrow window first, a further one's.
FURTHER_RANK = 7

COLUMNS = (
    Column(heading="PEER"),
    Column(heading="STATE"),
    Column(heading="WEIGHT", right=True),
    Column(heading="SHARE %", right=True),
    Column(heading="", rank=5),
    Column(heading="PIN %", right=True, rank=2),
    Column(heading="SCORE", right=True, rank=6),
    Column(heading="CPU %", right=True, rank=1),
    Column(heading="NET %", right=True, rank=8),
    Column(heading="IO %", right=True, rank=8),
    Column(heading="MEM %", right=True, rank=7),
)

TRAFFIC_COLUMNS = (
    Column(heading="DONE/tick", right=True, rank=9),
    Column(heading="FAILED/tick", right=True, rank=10),
    Column(heading="IN FLIGHT", right=True, rank=11),
    Column(heading="WAITING", right=True, rank=11),
    Column(heading="OPEN", right=True, rank=11),
    Column(heading="LATENCY ms", right=True, rank=4),
    Column(heading="SAMPLE s", right=True, rank=3),
    Column(heading="BASELINE", right=True, rank=12),
    Column(heading="ADDRESS", rank=13),
)

TABLE_COLUMNS = (
    *COLUMNS[:4],
    Column(heading="", rank=2),
    Column(heading="BASELINE", right=True, rank=1),
    Column(heading="ADDRESS", rank=3),
)


def of_overview(document: Overview, look: Look) -> list[str]:
    """Return a line for each peer of an overview."""
    largest = max((peer.share for peer in document.peers), default=0.0)
    high = (document.thresholds or {}).get("H") if document.alert else None
    further = [name for name in document.indicators if name not in FOUR]
    columns = (
        *COLUMNS,
        *(Column(heading=f"{name.upper()} %", right=True, rank=FURTHER_RANK) for name in further),
        *TRAFFIC_COLUMNS,
    )
    rows = [_fields(peer, (*FOUR, *further), largest, high, look) for peer in document.peers]
    return table(columns, rows, look)


def of_table(document: Table, look: Look) -> list[str]:
    """Return a weight table as it was published: its order, law and picker, then a line for each peer."""
    about = (
        f"{document.upstream}  table {document.term}.{document.generation}, "
        f"law {document.law}, picker {document.picker}"
    )
    shares = shares_of(document)
    largest = max(shares, default=0.0)
    rows = [
        [
            Field(peer.id),
            _state(peer.state),
            Field(str(peer.weight)),
            Field(percent(share, 1)),
            _bar(share, largest, look),
            Field(str(peer.baseline)),
            Field(peer.address),
        ]
        for peer, share in zip(document.peers, shares, strict=True)
    ]
    return [look.line(about, "bold"), *table(TABLE_COLUMNS, rows, look)]


def shares_of(document: Table) -> list[float]:
    """Return by peer the share of the requests that its weight is meant to bring.

    Backups count only while no other peer is up, as the data plane has it.
    """
    serving = "up" if any(peer.state == "up" for peer in document.peers) else "backup"
    total = sum(peer.weight for peer in document.peers if peer.state == serving)
    return [peer.weight / total if peer.state == serving else 0.0 for peer in document.peers]


def _fields(
    peer: Live, indicators: Sequence[str], largest: float, high: float | None, look: Look
) -> Sequence[Field]:
    used = peer.utilization or {}
    overloaded: Style = (
        "bad" if high is not None and peer.score is not None and peer.score <= high else "plain"
    )
    age: Style = "warn" if peer.silent else "plain"
    return [
        Field(peer.id, "bold"),
        _why_state(peer),
        Field(str(peer.weight)),
        Field(percent(peer.share, 1)),
        _bar(peer.share, largest, look),
        Field("" if peer.pin is None else f"{peer.pin:g}", "warn"),
        Field(fixed(peer.score, 2), overloaded),
        *(Field(percent(used.get(indicator))) for indicator in indicators),
        Field(figure(peer.completed_per_tick)),
        Field(figure(peer.failed_per_tick), "bad" if peer.failed_per_tick else "plain"),
        Field(figure(peer.in_flight)),
        Field("" if peer.waiting is None else figure(peer.waiting)),
        Field("" if peer.open is None else figure(peer.open)),
        Field(figure(peer.latency_ms)),
        Field(UNKNOWN if peer.sample_age_s is None else f"{peer.sample_age_s:.1f}", age),
        Field(str(peer.baseline)),
        Field(peer.address),
    ]


def _why_state(peer: Live) -> Field:
    """Return the state, or the word for what brought it about, where that was no person."""
    if peer.leaving and peer.state == "up":
        return Field("leaving", "warn")
    if (peer.state, peer.pod) in {("down", "unready"), ("drain", "terminating")}:
        return Field(peer.pod or "", STATE_STYLES[peer.state])
    return _state(peer.state)


def _state(state: str) -> Field:
    return Field(state, STATE_STYLES.get(state, "plain"))


def _bar(share: float, largest: float, look: Look) -> Field:
    """Return a bar whose full length is the largest share, so that hundreds of servers still differ."""
    ratio = share / largest if largest > 0 else 0.0
    return Field(bar(ratio, BAR_WIDTH, ascii_only=look.ascii_only), "bar")
