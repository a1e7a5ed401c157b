"""A change of a peer, and the shares before and after it, as lines. Pure."""

from collections.abc import Mapping

from steelyard_controller.cli.api_documents import Declared, Overview
from steelyard_controller.cli.terminal.numbers import UNKNOWN, percent
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, table


def of_change(upstream: str, before: Declared, after: Declared, look: Look) -> str:
    """Return the change of the declaration in one line: `web/server-1: state up → drain`."""
    changes = [
        f"{name} {_shown(name, old)} {look.arrow} {_shown(name, new)}"
        for name in ("state", "pin")
        for old, new in [(getattr(before, name), getattr(after, name))]
        if old != new
    ]
    if not changes:
        return look.line(f"{upstream}/{after.id}: nothing to do, it is so already ({_stands(after)})")
    return look.line(f"{upstream}/{after.id}: {', '.join(changes)}", "bold")


def of_shares(before: Overview, after: Overview, look: Look) -> list[str]:
    """Return the shares before and after, of the peers with a change of a tenth of a percent."""
    previous, now = _shares(before), _shares(after)
    every = dict.fromkeys([*previous, *now])
    moved = [peer for peer in every if percent(previous.get(peer), 1) != percent(now.get(peer), 1)]
    columns: tuple[Column[str], ...] = (
        Column("PEER", lambda peer: peer),
        Column("SHARE % BEFORE", lambda peer: percent(previous.get(peer), 1), right=True),
        Column("AFTER", lambda peer: percent(now.get(peer), 1), right=True),
        Column("CHANGE", lambda peer: _moved(previous, now, peer), right=True, rank=1),
    )
    return table(columns, moved, look) if moved else [look.line("no share has moved")]


def forecast(before: Declared, shares: Overview | None, look: Look) -> list[str]:
    """Return the peer's share before the change, which no weight table has yet."""
    share = None if shares is None else _shares(shares).get(before.id)
    said = "" if share is None else f"its share was {percent(share, 1)} %; "
    return [
        look.line(f"{said}the next weight tables have it (--wait shows the shares before and after)", "dim")
    ]


def alone(after: Overview, look: Look) -> list[str]:
    """Return a warning when no server, or only backups, are left to serve."""
    if any(peer.state == "up" for peer in after.peers):
        return []
    if any(peer.state == "backup" for peer in after.peers):
        return [look.line(f"no server of {after.upstream} is up: its backups serve now", "warn")]
    return [look.line(f"no server of {after.upstream} is up: requests get a 502 until one is", "bad")]


def _stands(peer: Declared) -> str:
    return f"state {peer.state}, pin {_shown('pin', peer.pin)}"


def _shown(name: str, value: object) -> str:
    if value is None:
        return "none"
    return f"{value:g} %" if name == "pin" else str(value)


def _shares(document: Overview) -> Mapping[str, float]:
    return {peer.id: peer.share for peer in document.peers}


def _moved(previous: Mapping[str, float], now: Mapping[str, float], peer: str) -> str:
    if peer not in previous or peer not in now:
        return UNKNOWN
    return f"{100 * (now[peer] - previous[peer]):+.1f}"
