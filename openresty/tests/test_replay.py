"""Recordings of signed values that are put back: nginx refuses old ones, and shows it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from openresty.tests.test_sources import NOW_MS, SECRET, TABLE, Controller, digest, options, signed, table

if TYPE_CHECKING:
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
KEY = f'"{SECRET}"'


@pytest.fixture
def leader() -> Iterator[Controller]:
    """A controller's API with a table later than all recordings."""
    leader = Controller()
    yield leader
    leader.stop()


def test_a_signed_table_of_long_ago_is_refused_by_an_nginx_that_starts_with_nothing(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.memcached.set(TABLE, signed(table(b, generation=9, term=9, issued_at_ms=NOW_MS - 26 * HOUR_MS)))
    edge = rig.edge(workers=2, options=options(bootstrap=f'"{a.address}"', key=KEY))
    edge.wait_refused("replayed", times=2)
    served = edge.upstream()
    assert (served["rung"], served["last_fetch"]) == ("bootstrap", "replayed")
    assert "it was issued 26 hours ago by this machine's clock" in served["last_refused"]
    assert edge.shares(4) == {"a": 4}
    assert edge.logged("is refused (replayed)") == 1
    rig.memcached.set(TABLE, signed(table(a, b, generation=1)))
    edge.wait_for(1)
    assert edge.upstream()["rung"] in ("fresh", "hold")


def test_without_a_key_no_clock_is_looked_at(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, table(a, generation=9, issued_at_ms=0))
    edge = rig.edge(options=options())
    edge.wait_for(9)
    assert sum(edge.upstream()["refused"].values()) == 0


def test_a_saved_table_of_long_ago_is_this_machine_s_own_and_serves(rig: "Rig", tmp_path: Path) -> None:
    a = rig.backend("a")
    (tmp_path / "web.weights").write_text(signed(table(a, generation=7, issued_at_ms=0)))
    edge = rig.edge(options=options(state_dir=f'"{tmp_path}"', key=KEY))
    edge.wait_for(7)
    assert edge.upstream()["rung"] == "saved"


def test_an_nginx_that_restarts_refuses_what_is_older_than_what_it_served(rig: "Rig", tmp_path: Path) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    given = options(state_dir=f'"{tmp_path}"', key=KEY)
    path = tmp_path / "web.weights"
    rig.memcached.set(TABLE, signed(table(a, generation=2)))
    first = rig.edge(options=given)
    for generation in (2, 3, 4, 6, 7):
        rig.memcached.set(TABLE, signed(table(a, generation=generation)))
        first.wait_for(generation)
    # All have the same peers, so the last one is saved for its order alone.
    rig.wait_until(lambda: '"generation":7,' in path.read_text(), "the last order is on disk")
    first.stop()

    rig.memcached.set(TABLE, signed(table(b, generation=5)))
    edge = rig.edge(options=given)
    edge.wait_refused("older", times=2)
    served = edge.upstream()
    assert (served["generation"], served["rung"]) == (7, "saved")
    assert f"that is the table in {path}" in served["last_refused"]
    assert edge.shares(4) == {"a": 4}
    rig.memcached.set(TABLE, signed(table(a, b, generation=8)))
    edge.wait_for(8)
    assert edge.upstream()["rung"] in ("fresh", "hold")


def test_a_recording_that_an_nginx_starts_with_is_undone_by_a_controller(
    rig: "Rig", leader: Controller
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    current = table(a, generation=118)
    leader.publish(current, Steelyard_Signature=digest(current))
    rig.memcached.set(TABLE, signed(table(b, generation=1, issued_at_ms=NOW_MS - HOUR_MS)))
    edge = rig.edge(workers=2, options=options(controller=leader.option, key=KEY))
    edge.wait_for(118)
    assert edge.upstream()["source"] == f"controller {leader.url}"
    edge.wait_refused("older", times=2)
    assert edge.shares(4) == {"a": 4}


def test_a_recording_that_is_played_back_table_by_table_and_never_stale_is_undone_as_well(
    rig: "Rig", leader: Controller
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    current = table(a, generation=1, term=2)
    leader.publish(current, Steelyard_Signature=digest(current))
    generation = 1

    def play() -> None:
        nonlocal generation
        generation += 1
        recorded = table(b, generation=generation, issued_at_ms=NOW_MS - HOUR_MS)
        rig.memcached.set(TABLE, signed(recorded))

    play()
    edge = rig.edge(options=options(controller=leader.option, key=KEY))

    def follows_the_leader() -> bool:
        play()
        return bool(edge.upstream()["term"] == 2)

    rig.wait_until(follows_the_leader, "the controller's table is served")
    assert edge.shares(4) == {"a": 4}


def test_without_a_controller_a_recording_of_the_last_day_serves_until_the_next_table(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    recorded = signed(table(b, generation=1, issued_at_ms=NOW_MS - HOUR_MS))
    rig.memcached.set(TABLE, recorded)
    edge = rig.edge(options=options(key=KEY))
    edge.wait_for(1)
    rig.memcached.set(TABLE, signed(table(a, generation=118)))
    edge.wait_for(118)
    rig.memcached.set(TABLE, recorded)
    edge.wait_refused("older")
    assert edge.shares(4) == {"a": 4}


def test_a_controller_that_is_a_tick_behind_memcached_is_no_refusal(rig: "Rig", leader: Controller) -> None:
    a = rig.backend("a")
    behind = table(a, generation=117)
    leader.publish(behind, Steelyard_Signature=digest(behind))
    rig.memcached.set(TABLE, signed(table(a, generation=118)))
    edge = rig.edge(options=options(controller=leader.option, key=KEY))
    edge.wait_for(118)
    rig.wait_until(lambda: leader.answered, "the controller was asked")
    rig.memcached.set(TABLE, signed(table(a, generation=119)))
    edge.wait_for(119)
    assert sum(edge.upstream()["refused"].values()) == 0
    assert edge.logged("is refused") == 0


def test_a_report_tells_when_it_was_sent(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, table(a, generation=1))
    edge = rig.edge(options=options())
    edge.wait_for(1)
    key = "steelyard:1:traffic:web:edge-1"
    rig.wait_until(lambda: rig.memcached.get(key), "a report")
    sent_at_ms = json.loads(rig.memcached.get(key) or b"")["sent_at_ms"]
    assert NOW_MS <= sent_at_ms <= time.time_ns() // 1_000_000
