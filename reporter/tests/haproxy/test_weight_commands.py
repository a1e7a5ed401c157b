"""HAProxy gets commands for differences from the table, and none for servers outside of the table."""

import json
from collections.abc import Mapping

import pytest
from steelyard_protocol import weight_table
from steelyard_protocol.small_changes import is_small_in_haproxy
from steelyard_protocol.weight_table import State, TablePeer, WeightTable
from steelyard_protocol.wire import Refused
from steelyard_reporter.haproxy import show_stat, weight_commands
from steelyard_reporter.haproxy.show_stat import Servers
from steelyard_reporter.haproxy.weight_commands import Batch

from ..rows import stat


def _table(**states: State) -> WeightTable:
    peers = tuple(
        TablePeer(id=name.replace("_", "-"), address=f"10.0.0.{n}:80", weight=500, baseline=500, state=state)
        for n, (name, state) in enumerate(states.items(), 1)
    )
    return WeightTable(
        upstream="web", term=1, generation=1, issued_at_ms=0, law="steelyard", picker="vnswrr2", peers=peers
    )


def _servers(*rows: Mapping[str, object]) -> Servers:
    servers = show_stat.parse_stat(stat(*rows), "web", "x")
    assert servers is not None
    return servers


def _told(
    table: WeightTable,
    *rows: Mapping[str, object],
    keywords: str | None = None,
    named: frozenset[str] = frozenset(),
    added: frozenset[str] = frozenset(),
    holds_small: bool = False,
    turn: int = 0,
) -> Batch:
    return weight_commands.plan(
        table,
        "web",
        _servers(*rows),
        keywords=keywords,
        named_before=named,
        added_before=added,
        holds_small=holds_small,
        turn=turn,
    )


def test_what_is_as_it_should_be_is_not_said_again() -> None:
    assert _told(_table(s1="up", s2="up"), {"name": "s1"}, {"name": "s2"}).commands == ()


def test_weights_and_states_follow_the_table() -> None:
    told = _told(
        _table(s1="up", s2="drain", s3="down", s4="up"),
        {"name": "s1", "uweight": 7},
        {"name": "s2"},
        {"name": "s3"},
        {"name": "s4", "status": "MAINT"},
    )
    assert told.commands == (
        "set server web/s1 weight 100",
        "set server web/s2 state drain",
        "set server web/s3 state maint",
        "set server web/s4 state ready",
    )


def test_small_changes_wait_and_states_do_not() -> None:
    # With leastconn the first of ten equal servers had 16 of 100 requests: each new weight queues anew.
    table = _table(s1="up", s2="up", s3="drain")
    rows = [{"name": "s1", "uweight": 96}, {"name": "s2", "uweight": 90}, {"name": "s3", "uweight": 99}]
    assert _told(table, *rows, holds_small=True).commands == (
        "set server web/s2 weight 100",
        "set server web/s3 state drain",
    )
    assert len(_told(table, *rows).commands) == 4


def test_a_step_of_one_is_rounding_and_waits() -> None:
    assert is_small_in_haproxy(1, 2)
    assert is_small_in_haproxy(14, 15)
    assert not is_small_in_haproxy(14, 16)
    assert is_small_in_haproxy(256, 244)


def test_servers_take_turns_at_being_ordered_first() -> None:
    rows = [{"name": name, "uweight": 7} for name in ("s1", "s2", "s3")]
    firsts = [_told(_table(s1="up", s2="up", s3="up"), *rows, turn=turn).commands[0] for turn in range(4)]
    assert [first.split()[2] for first in firsts] == ["web/s1", "web/s2", "web/s3", "web/s1"]


def test_what_haproxy_keeps_out_for_a_reason_of_its_own_stays_out() -> None:
    rows = [{"name": "s1", "status": "DOWN 1/2"}, {"name": "s2", "status": "MAINT (resolution)"}]
    assert _told(_table(s1="up", s2="up"), *rows).commands == ()


def test_nothing_moves_where_not_one_name_is_known() -> None:
    table = _table(s1="up", s2="drain")
    assert _told(table, {"name": "web1", "uweight": 3}, keywords="check").commands == ()
    (line,) = weight_commands.mismatches(
        table, "web", _servers({"name": "web1", "addr": "10.0.0.2:80"}), sets=True, adds=True
    ).values()
    assert "nothing is reported or set" in line
    assert "behind `server` in haproxy.cfg (web1 has the address of s2)" in line


@pytest.mark.parametrize("shown", ["[::ffff:10.0.0.2]:80", "10.0.0.2:0080"])
def test_a_strange_server_is_known_by_its_address_however_that_is_spelled(shown: str) -> None:
    rows = _servers({"name": "sock", "addr": "/run/web.sock"}, {"name": "web1", "addr": shown})
    (line,) = weight_commands.mismatches(_table(s1="up", s2="up"), "web", rows, sets=True, adds=True).values()
    assert "(web1 has the address of s2)" in line


def test_a_server_that_nobody_declared_is_left_alone_and_named() -> None:
    table = _table(s1="up")
    rows = {"name": "s1"}, {"name": "spare", "status": "MAINT"}
    assert _told(table, *rows).commands == ()
    texts = weight_commands.mismatches(table, "web", _servers(*rows), sets=True, adds=True)
    assert "spare is not declared, and not touched" in texts["strange"]


@pytest.mark.parametrize("member", ["id", "address"])
@pytest.mark.parametrize("ending", [";show env", "\nshow env", " agent-check", "\x00"])
def test_no_table_that_is_read_makes_a_command_of_its_own(member: str, ending: str) -> None:
    document = weight_table.to_document(_table(s1="up", s2="up"))
    assert isinstance(weight_table.decode(json.dumps(document).encode()), WeightTable)
    document["peers"][1][member] += ending
    assert isinstance(weight_table.decode(json.dumps(document).encode()), Refused)


def test_a_server_with_an_agent_check_is_left_to_that() -> None:
    table, rows = _table(s1="down"), {"name": "s1", "agent_status": "L7OK", "uweight": 9}
    assert _told(table, rows).commands == ()
    assert (
        "agent-check"
        in weight_commands.mismatches(table, "web", _servers(rows), sets=True, adds=False)["agent-check"]
    )
    assert not weight_commands.mismatches(table, "web", _servers(rows), sets=False, adds=False)


def test_a_declared_server_is_added_with_the_keywords_and_checked() -> None:
    told = _told(_table(s1="up", s2="up"), {"name": "s1"}, keywords="check inter 2s")
    assert told.commands == (
        "add server web/s2 10.0.0.2:80 weight 100 check inter 2s",
        "enable health web/s2",
    )
    assert told.added == {"s2"}


def test_a_declared_server_is_missed_where_none_may_be_added() -> None:
    table = _table(s1="up", s2="up")
    assert _told(table, {"name": "s1"}).commands == ()
    texts = weight_commands.mismatches(table, "web", _servers({"name": "s1"}), sets=True, adds=False)
    assert "HAProxy has no s2" in texts["missing"]


def test_a_server_that_leaves_the_declaration_is_put_out_of_service_and_an_added_one_deleted() -> None:
    table, named = _table(s1="up"), frozenset({"s1", "s2", "s3"})
    busy: dict[str, object] = {"name": "s3", "status": "MAINT", "scur": 1}
    rows: list[Mapping[str, object]] = [{"name": "s1"}, {"name": "s2"}, busy]
    assert _told(table, *rows, named=named).commands == ("set server web/s2 state maint",)
    told = _told(table, {"name": "s1"}, busy | {"scur": 0}, named=named, added=frozenset({"s3"}))
    assert told.commands == ("del server web/s3",)
    assert _told(table, {"name": "s1"}, busy, named=named, added=frozenset({"s3"})).commands == ()


def test_a_backend_that_haproxy_has_not_is_named() -> None:
    texts = weight_commands.mismatches(_table(s1="up"), "shop", None, sets=False, adds=False)
    assert "HAProxy has no backend shop: give --upstreams web=BACKEND" in texts["backend"]


def test_an_answer_of_successes_is_no_complaint() -> None:
    assert weight_commands.complaint("\n\nNew server registered.\n\nServer deleted.\n") is None
    assert "level admin" in (weight_commands.complaint("Permission denied\n\n") or "")
    assert "No such server." in (weight_commands.complaint("\nNo such server.\n\n") or "")
    assert "balance roundrobin" in (
        weight_commands.complaint("Backend is using a static LB algorithm and ...") or ""
    )
