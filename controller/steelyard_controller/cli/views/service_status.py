"""The status of the controller and its upstreams as lines: role, leader, weights, faults. Pure."""

from collections.abc import Mapping, Sequence

from steelyard_controller.cli.api_documents import (
    Headroom,
    LoadBalancer,
    Overview,
    Row,
    Service,
    Upstreams,
    ZoneTraffic,
)
from steelyard_controller.cli.terminal.numbers import figure, percent, span
from steelyard_controller.cli.terminal.style import RUNG_STYLES, Look, Style
from steelyard_controller.cli.terminal.text_table import Column, Field, table
from steelyard_controller.cli.views import peer_table

# The last tenth, as for the alert.
NEARLY_NONE = 0.1


def well(service: Service, upstreams: Upstreams, rows: Sequence[Row]) -> bool:
    """Return whether a controller leads, every upstream has its weights, and nothing is degraded."""
    return (
        service.role != "waiting"
        and not service.degraded
        and not (upstreams.controller and upstreams.controller.degraded)
        and all(row.ready and not row.degraded for row in rows)
    )


def of_service(service: Service, look: Look) -> list[str]:
    """Return the controller's role, the leader, and the faults."""
    if service.role == "leader":
        line, style = f"{service.id} leads in term {service.term}", "good"
    elif service.leader is not None:
        line = f"{service.id} stands by; {service.leader.id} leads ({service.leader.url})"
        style = "plain"
    else:
        line, style = f"{service.id} waits: no controller leads now", "bad"
    kept = "state in memory only" if service.state == "memory" else f"state in {service.state}"
    of_installation = f"installation {service.installation}, " if service.installation else ""
    about = f"{of_installation}{kept}, up {span(service.uptime_s)}, version {service.version}"
    return [
        _two(line, "bad" if style == "bad" else "bold", f"  {about}", look),
        *of_faults(service.degraded, look),
    ]


def of_all(upstreams: Upstreams, asked: Service | None, look: Look) -> list[str]:
    """Return the leader's faults that are not the asked controller's, and the troubles of many upstreams."""
    leader = upstreams.controller
    if leader is None:
        return []
    told = [] if asked is None else asked.degraded
    at = "" if asked is None or asked.id == leader.id else f" at {leader.id}"
    faults = [line for line in leader.degraded if line not in told]
    return [
        *(look.line(f"degraded{at}: {line}", "bad") for line in faults),
        *(look.line(line, "warn") for line in upstreams.troubles),
    ]


def of_upstreams(rows: Sequence[Row], look: Look) -> list[str]:
    """Return a line for each upstream."""
    if not rows:
        return [
            look.line(
                "no upstream is declared yet: declare those of a file with `steelyard apply FILE`", "warn"
            )
        ]
    columns: tuple[Column[Row], ...] = (
        Column("UPSTREAM", lambda row: Field(row.name, "bold")),
        Column("LAW", lambda row: row.law, rank=1),
        Column("PICKER", lambda row: row.picker, rank=2),
        Column("PEERS", lambda row: str(row.peers), right=True),
        Column("REVISION", lambda row: str(row.revision), right=True, rank=3),
        Column("LEFT %", lambda row: percent(row.headroom), right=True, rank=4),
        Column("STATUS", _status),
    )
    return table(columns, rows, look)


def of_overview(document: Overview, look: Look) -> list[str]:
    """Return an upstream: its table's order, its peers, its load balancers, and its faults."""
    peers = peer_table.of_overview(document, look)
    left_out = more(len(document.peers), document.matching, look)
    return [title(document, look), *peers, *left_out, *around(document, look)]


def more(shown: int, matching: int | None, look: Look) -> list[str]:
    """Return a line with the command for the servers that are not shown; none if all are."""
    if matching is None or shown >= matching:
        return []
    shows = f"--limit {min(matching, 10_000)} shows them, --search TEXT finds names and addresses"
    return [look.line(f"{matching - shown:,} more: {shows}", "dim")]


def around(document: Overview, look: Look) -> list[str]:
    """Return the load balancers of an upstream, refused messages, and the faults."""
    return [
        *_headroom(document.headroom, look),
        *_zones(document.zone_traffic, look),
        *_load_balancers(document, look),
        *_undeclared(document, look),
        *_refused(document, look),
        *of_faults(document.degraded, look),
    ]


def title(document: Overview, look: Look) -> str:
    """Return an upstream's law, picker and table in one line."""
    parts = [
        f"law {document.law}",
        f"picker {document.picker}",
        f"revision {document.revision}",
        f"table {document.term}.{document.generation}",
    ]
    if document.thresholds:
        parts.append(", ".join(f"{name} {value:g}" for name, value in document.thresholds.items()))
    name = look.paint(look.cut(document.upstream), "bold")
    room = None if look.width is None else max(0, look.width - len(document.upstream))
    alert = "  high load" if document.alert else ""
    rest = f"  {', '.join(parts)}"
    if room is None:
        return name + rest + look.paint(alert, "bad")
    return name + look.paint(look.cut(alert, room), "bad") + look.cut(rest, room - len(alert))


def _two(first: str, style: Style, second: str, look: Look) -> str:
    room = None if look.width is None else max(0, look.width - len(first))
    return look.line(first, style) + (second if room is None else look.paint(look.cut(second, room), "dim"))


def _status(row: Row) -> Field:
    if not row.ready:
        return Field("not ready: no tick yet", "bad")
    if row.degraded:
        return Field(f"degraded: {'; '.join(row.degraded)}", "warn")
    return Field(f"ok; {'; '.join(row.troubles)}") if row.troubles else Field("ok", "good")


def _headroom(room: Headroom | None, look: Look) -> list[str]:
    if room is None:
        return []
    if room.left_per_s is None or room.ratio is None:
        return [look.line(f"headroom unknown: {room.unknown}", "dim")]
    lacks = room.left_per_s < 0
    left = f"lacks {figure(-room.left_per_s)}" if lacks else f"{figure(room.left_per_s)} left"
    servers = "1 server" if room.servers == 1 else f"{room.servers} servers"
    could = f"carries {figure(room.carries_per_s)} of the {figure(room.could_carry_per_s)} requests/s that"
    return [
        look.line(
            f"headroom {percent(room.ratio)} %: {could} {servers} could carry, {left}",
            "bad" if lacks else "warn" if room.ratio < NEARLY_NONE else "plain",
        )
    ]


def _zones(traffic: Mapping[str, ZoneTraffic], look: Look) -> list[str]:
    brings = sum(each.brings_per_s for each in traffic.values())
    if brings == 0:
        return []
    crosses = sum(each.crosses_per_s for each in traffic.values())
    by_zone = (
        f"{zone} {percent(each.crosses_per_s / each.brings_per_s)} %"
        for zone, each in traffic.items()
        if each.brings_per_s > 0
    )
    line = f"zones: {percent(crosses / brings)} % of {figure(brings)} requests/s cross: {', '.join(by_zone)}"
    return [look.line(line)]


def _load_balancers(document: Overview, look: Look) -> list[str]:
    if not document.load_balancers:
        return [look.line("no load balancer reports traffic, and none is declared", "warn")]
    columns: tuple[Column[tuple[str, LoadBalancer | None]], ...] = (
        Column("LOAD BALANCER", lambda row: Field(row[0], "bold")),
        Column("RUNG", lambda row: Field("no report", "warn") if row[1] is None else _rung(row[1])),
        Column("SERVES", lambda row: "-" if row[1] is None else _order(row[1], document.term)),
        Column("REPORT s", lambda row: "-" if row[1] is None else _report_age(row[1]), right=True),
    )
    rows = list(document.load_balancers.items())
    by_itself = [name for name, each in rows if each is not None and not each.declared]
    line = f"announced, not declared in load_balancers: {', '.join(by_itself)}"
    return [
        "",
        *table(columns, rows, look),
        *([look.line(line)] if by_itself else []),
    ]


def _rung(balancer: LoadBalancer) -> Field | str:
    return "-" if balancer.rung is None else Field(balancer.rung, RUNG_STYLES.get(balancer.rung, "bad"))


def _order(balancer: LoadBalancer, term: int) -> Field | str:
    if balancer.order is None:
        return "-"
    return Field("{}.{}".format(*balancer.order), "bad" if balancer.order[0] > term else "plain")


def _report_age(balancer: LoadBalancer) -> Field:
    return Field(f"{balancer.report_age_s:.1f}", "warn" if balancer.silent else "plain")


def _undeclared(document: Overview, look: Look) -> list[str]:
    names = [name for name, each in document.indicators.items() if not each.used]
    return [look.line(f"reported and not declared, so without effect: {', '.join(names)}")] if names else []


def _refused(document: Overview, look: Look) -> list[str]:
    return [look.line(f"refused: {source}: {why}", "bad") for source, why in document.refused.now.items()]


def of_faults(lines: Sequence[str], look: Look) -> list[str]:
    """Return a line of the terminal for each fault of a controller or an upstream."""
    return [look.line(f"degraded: {line}", "bad") for line in lines]
