"""The commands that make HAProxy's servers follow the weight table: weights, states, servers to add or
remove.

Pure: a table and HAProxy's servers in, commands of its runtime socket out (management guide, 9.3).

    up, backup   its weight, `state ready`        only haproxy.cfg can make a server a backup
    drain        `state drain`                    down   `state maint`
    absent       `add server`, if servers may be added; it starts in maintenance
    removed      `state maint`; if it was added, `del server` once it has no request

A server without a table since the reporter began is never touched. Nor is any server if HAProxy and the
table share no name: that is another backend, or another upstream. Nor is a server with an agent-check: its
answer would undo each command.

Each new weight queues its server anew. With leastconn or at low rates, servers with new weights are then
asked in the order of the commands. So small changes wait (`is_small_in_haproxy`), and each batch begins with
another server.
"""

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

from steelyard_protocol import peer_address
from steelyard_protocol.haproxy_weights import haproxy_weights
from steelyard_protocol.name_list import shown
from steelyard_protocol.small_changes import is_small_in_haproxy
from steelyard_protocol.weight_table import TablePeer, WeightTable

from steelyard_reporter.haproxy.show_stat import ServerRow, Servers

# Servers that a line names.
MOST_NAMED = 3

# Answers without a complaint.
SUCCESSES = ("New server registered.", "Server deleted.")

_STATES = {"up": "ready", "backup": "ready", "drain": "drain", "down": "maint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The commands to one process for one backend, and the servers to add."""

    commands: tuple[str, ...]
    added: frozenset[str] = frozenset()


def plan(
    table: WeightTable,
    backend: str,
    servers: Servers,
    *,
    keywords: str | None,
    named_before: Set[str],
    added_before: Set[str],
    holds_small: bool = False,
    turn: int = 0,
) -> Batch:
    """Return the commands that make a backend's servers follow the table.

    `keywords` are those of added servers; None adds none. `named_before` are the names of earlier
    tables, and `added_before` the servers that were added at run time. `holds_small` leaves small changes
    for later. `turn` is the number of the batch: the servers take turns at being first.
    """
    peers = {peer.id: peer for peer in table.peers}
    if servers and not peers.keys() & servers.keys():
        return Batch(commands=())
    weights = haproxy_weights(table)
    commands: list[str] = []
    added = set()
    for name, row in _turned(servers, turn):
        where = f"{backend}/{name}"
        if row.has_agent_check:
            continue
        if name in peers:
            is_held = holds_small and is_small_in_haproxy(row.weight, weights[name])
            weight = row.weight if is_held else weights[name]
            commands.extend(_change(where, row, weight, _STATES[peers[name].state]))
        elif name in added_before and _state(row) == "maint" and row.in_flight == 0:
            commands.append(f"del server {where}")
        elif name in named_before:
            commands.extend(_change(where, row, row.weight, "maint"))
    if keywords is not None:
        for name, peer in peers.items():
            if name not in servers:
                commands.extend(_addition(f"{backend}/{name}", peer, weights[name], keywords))
                added.add(name)
    return Batch(commands=tuple(commands), added=frozenset(added))


def mismatches(
    table: WeightTable, backend: str, servers: Servers | None, *, sets: bool, adds: bool
) -> dict[str, str]:
    """Return the mismatches between a table and a backend, each kind by its key, in one line."""
    where = f"{table.upstream}, backend {backend}"
    if servers is None:
        return {
            "backend": f"HAProxy has no backend {backend}: give --upstreams {table.upstream}=BACKEND, "
            "with its name in haproxy.cfg"
        }
    peers = {peer.id: peer for peer in table.peers}
    strange = sorted(servers.keys() - peers.keys())
    hints = _hints(strange, servers, peers)
    if strange and not servers.keys() & peers.keys():
        return {
            "names": f"{where}: no server of HAProxy has the name of a declared one; nothing is reported or "
            f"set. HAProxy has {shown(strange, MOST_NAMED)}, declared are "
            f"{shown(sorted(peers), MOST_NAMED)}: write the declared names behind `server` in "
            f"haproxy.cfg{hints}"
        }
    texts = {}
    if strange:
        texts["strange"] = (
            f"{where}: {shown(strange, MOST_NAMED)} {'is' if len(strange) == 1 else 'are'} not declared, and "
            f"not touched: declare, or rename in haproxy.cfg{hints}"
        )
    missing = sorted(peers.keys() - servers.keys())
    if missing and not adds:
        texts["missing"] = (
            f"{where}: HAProxy has no {shown(missing, MOST_NAMED)}: write it into haproxy.cfg, or start with "
            "--add-servers"
        )
    checked = sorted(name for name, row in servers.items() if row.has_agent_check and name in peers)
    if sets and checked:
        texts["agent-check"] = (
            f"{where}: {shown(checked, MOST_NAMED)} has an agent-check, which sets weights too, and is not "
            "touched: remove agent-check from haproxy.cfg, or start without --set-weights"
        )
    return texts


def complaint(answer: str) -> str | None:
    """Return HAProxy's complaint in its answer to commands, with the remedy; None if there is none."""
    lines = [line.strip() for line in answer.splitlines()]
    wrong = list(dict.fromkeys(line for line in lines if line and line not in SUCCESSES))
    if not wrong:
        return None
    if "Permission denied" in wrong[0]:
        return "the socket may only be looked at: write `level admin` behind `stats socket` in haproxy.cfg"
    if "static LB" in wrong[0]:
        return f"{wrong[0]} Write `balance roundrobin`, leastconn or random in haproxy.cfg"
    return f"HAProxy says: {'; '.join(wrong[:3])}"


def _turned(servers: Servers, turn: int) -> list[tuple[str, ServerRow]]:
    rows = list(servers.items())
    first = turn % len(rows) if rows else 0
    return rows[first:] + rows[:first]


def _change(where: str, row: ServerRow, weight: int, state: str) -> list[str]:
    commands = [f"set server {where} weight {weight}"] if row.weight != weight else []
    has = _state(row)
    # A server that is down shows nothing else; HAProxy's own reason to keep one out is respected.
    if has != state and (has is not None or state == "maint"):
        commands.append(f"set server {where} state {state}")
    return commands


def _state(row: ServerRow) -> str | None:
    if row.status in ("MAINT", "DRAIN"):
        return row.status.lower()
    return None if row.status.startswith(("MAINT", "DRAIN", "DOWN")) else "ready"


def _addition(where: str, peer: TablePeer, weight: int, keywords: str) -> list[str]:
    ip, port = peer_address.split(peer.address)
    address = f"ipv6@[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
    commands = [f"add server {where} {address} weight {weight} {keywords}".rstrip()]
    return [*commands, f"enable health {where}"] if "check" in keywords.split() else commands


def _hints(strange: list[str], servers: Servers, peers: Mapping[str, TablePeer]) -> str:
    """Return the strange servers that have the address of a declared one, if HAProxy shows addresses."""
    if not strange:
        return ""
    named = {peer_address.canonical_declared(peer.address): name for name, peer in peers.items()}
    hints = []
    for name in strange:
        with suppress(ValueError):  # HAProxy shows none, or the path of a socket.
            address = peer_address.canonical(servers[name].address)
            if address in named:
                hints.append(f"{name} has the address of {named[address]}")
    return f" ({hints[0]})" if hints else ""
