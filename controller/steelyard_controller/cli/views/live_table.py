"""The live table of `steelyard watch`, and the line for each tick without a terminal. Pure."""

from collections.abc import Sequence

from steelyard_controller.cli.api_documents import Overview, Service
from steelyard_controller.cli.terminal.numbers import percent
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.views import peer_table, service_status

KEYS = "q or ctrl-C ends"

# The headings, one server, and how many more there are.
MIN_TABLE_LINES = 3


def screen(
    document: Overview | None, service: Service | None, notes: Sequence[str], look: Look, height: int
) -> list[str]:
    """Return at most `height` lines: the upstream, the controller's faults, then notes and keys at the foot.

    A note is a recent event: a change, another leader, a lost connection. Without room for all lines,
    peers are left out: faults must be seen.
    """
    # Without a place for a stream, overviews are asked for, and these have the controller's faults.
    asked = None if document is None else document.controller
    degraded = asked.degraded if asked else service.degraded if service else []
    faults = service_status.of_faults(degraded, look)
    foot = [*faults, *(look.line(note, "warn") for note in notes), look.line(KEYS, "dim")]
    if document is None:
        return ["waiting for the first tick", *foot][:height]
    table, around = peer_table.of_overview(document, look), service_status.around(document, look)
    room = max(MIN_TABLE_LINES, height - 1 - len(around) - len(foot))
    if len(table) > room:
        more = f"{len(table) - room + 1} more servers: enlarge the window, or `steelyard status`"
        table = [*table[: room - 1], look.line(more, "dim")]
    return [service_status.title(document, look), *table, *around, *foot][:height]


def leader_news(before: Service | None, now: Service) -> list[str]:
    """Return a line if another controller leads now, or none does."""
    if before is not None and before.leader == now.leader:
        return []
    nobody = "no controller leads now: the last tables hold"
    return [nobody if now.leader is None else f"{now.leader.id} leads"]


def news(before: Service | None, now: Service) -> list[str]:
    """Return the changes of the leader and of its faults, a line each."""
    known = [] if before is None else before.degraded
    begun = [f"degraded: {line}" for line in now.degraded if line not in known]
    ended = [f"no longer degraded: {line}" for line in known if line not in now.degraded]
    return [*leader_news(before, now), *begun, *ended]


def line(document: Overview) -> str:
    """Return an upstream's shares in one line, for a log or a pipe."""
    rows = [
        f"{peer.id} {peer.weight} {percent(peer.share, 1)}%{'' if peer.state == 'up' else f' {peer.state}'}"
        for peer in document.peers
    ]
    alert = " alert" if document.alert else ""
    return f"{document.upstream} {document.term}.{document.generation}{alert}: {', '.join(rows)}"
