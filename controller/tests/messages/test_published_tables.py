"""Tables in a Memcached that another program writes to as well."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from pymemcache.client.base import Client
from steelyard_controller.messages import published_chunks
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_tables import MOST_WRITES, TABLE_TTL_S, PublishedTables
from steelyard_protocol import signature, table_chunks, weight_table, wire
from steelyard_protocol.memcached_client import Unavailable
from steelyard_protocol.memcached_pool import Forbidden, MemcachedPool
from steelyard_protocol.table_chunks import Manifest
from steelyard_protocol.weight_table import TablePeer, WeightTable
from steelyard_protocol.wire import Refused

from testing.daemons import Daemon
from testing.memcached_ttl import ttl_s
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

KEY = b"an example key, never a real one"
AT = wire.weights_key("web")


def table(*, term: int, generation: int) -> WeightTable:
    peers = (TablePeer(id="a", address="10.0.0.1:80", weight=1, baseline=1, state="up"),)
    return WeightTable(
        upstream="web", term=term, generation=generation, issued_at_ms=1, law="static", picker="vnswrr",
        peers=peers,
    )  # fmt: skip


def signed(text: WeightTable) -> bytes:
    return signature.sign(KEY, weight_table.encode(text))


class Meddled(MemcachedPool):
    """A Memcached to which another program writes before each of our first `times` writes."""

    def __init__(self, address: str, value: Callable[[int], bytes], *, times: int) -> None:
        super().__init__(address)
        host, port = address.split(":")
        self._port = int(port)
        self._other = Client((host, self._port))
        self._value = value
        self._times = times
        self.writes = 0

    async def replace(self, *args: Any, **options: Any) -> dict[str, dict[str, bool | str]]:
        self.writes += 1
        if self.writes <= self._times:
            self._other.set(AT, self._value(self.writes), noreply=False)
        return await super().replace(*args, **options)

    def held(self, at: str = AT) -> bytes | None:
        value: bytes | None = self._other.get(at)
        return value

    def ttl_s(self, at: str) -> int:
        """Return the seconds until a value expires; 0: it is gone."""
        return ttl_s(self._port, at)

    def close(self) -> None:
        self._other.close()
        super().close()


Meddle = Callable[..., tuple[PublishedTables, Meddled]]


@pytest.fixture
def meddle(memcached: Daemon) -> Iterator[Meddle]:
    opened: list[Meddled] = []

    def make(value: Callable[[int], bytes], *, times: int) -> tuple[PublishedTables, Meddled]:
        pipeline = Meddled(memcached.address, value, times=times)
        opened.append(pipeline)
        return PublishedTables(pipeline, keys=Keyring(shared=KEY), refused=lambda *_: None), pipeline

    yield make
    for pipeline in opened:
        pipeline.close()


async def publish(published: PublishedTables, mine: WeightTable) -> None:
    skip: set[str] = set()
    tables = await published.read(["web"], skip)
    for error in (await published.publish([mine], tables, certain=lambda: True, skip=skip)).values():
        raise error


def test_the_head_follows_the_table(meddle: Meddle) -> None:
    published, pipeline = meddle(lambda _: b"", times=0)
    mine = weight_table.with_digest(table(term=5, generation=7))
    asyncio.run(publish(published, mine))
    assert pipeline.held(wire.head_key("web")) == signature.sign(KEY, weight_table.encode_head(mine))


def test_a_table_that_is_not_published_has_no_head(meddle: Meddle) -> None:
    theirs = signed(table(term=6, generation=1))
    published, pipeline = meddle(lambda _: theirs, times=1)
    with pytest.raises(Unavailable, match="another controller leads by now"):
        asyncio.run(publish(published, weight_table.with_digest(table(term=5, generation=7))))
    assert pipeline.held(wire.head_key("web")) is None


@pytest.mark.parametrize("times", range(MOST_WRITES))
def test_a_false_table_that_comes_after_the_look_is_replaced_in_the_same_tick(
    meddle: Meddle, times: int
) -> None:
    published, pipeline = meddle(lambda n: b"garbage %d" % n, times=times)
    mine = table(term=5, generation=7)
    asyncio.run(publish(published, mine))
    assert pipeline.held() == signed(mine)
    assert pipeline.writes == times + 1


def test_the_tables_of_many_upstreams_are_written_at_once_and_what_is_wrong_with_one_stops_no_other(
    memcached: Daemon,
) -> None:
    names = [f"up-{number}" for number in range(600)]
    mine = {
        name: weight_table.with_digest(replace(table(term=5, generation=7), upstream=name)) for name in names
    }
    mine["up-7"] = replace(mine["up-7"], peers=mine["up-7"].peers * (wire.MAX_TABLE_BYTES // 50))
    theirs = {wire.weights_key(name): b"garbage" for name in names[::2]}
    eighth = wire.weights_key("up-8")
    theirs[eighth] = signed(replace(mine["up-8"], term=6))
    pipeline = Meddled(memcached.address, lambda _: b"", times=0)
    published = PublishedTables(pipeline, keys=Keyring(shared=KEY), refused=lambda *_: None)

    async def run() -> dict[str, Exception]:
        held = await published.read(names, set())
        await pipeline.keep(theirs, ttl_s=60, afresh=True)
        return await published.publish(list(mine.values()), held, certain=lambda: True, skip=set())

    failed = asyncio.run(run())
    assert {name: type(error) for name, error in failed.items()} == {
        "up-7": weight_table.TableTooLarge, "up-8": Unavailable
    }  # fmt: skip
    # All of them once, and the overwritten ones once more.
    assert pipeline.writes == 2
    for name in names:
        here = None if name == "up-7" else theirs[eighth] if name == "up-8" else signed(mine[name])
        assert pipeline.held(wire.weights_key(name)) == here
        assert (pipeline.held(wire.head_key(name)) is not None) == (name not in failed)
    pipeline.close()


def test_who_writes_without_a_pause_is_said_and_not_waited_for(meddle: Meddle, memcached: Daemon) -> None:
    published, pipeline = meddle(lambda n: b"garbage %d" % n, times=1000)
    with pytest.raises(
        Unavailable, match=f"another program keeps overwriting the table.*{memcached.address}"
    ):
        asyncio.run(publish(published, table(term=5, generation=7)))
    assert pipeline.writes == MOST_WRITES


def test_the_table_of_a_leader_of_a_higher_term_is_left_there(meddle: Meddle) -> None:
    theirs = signed(table(term=6, generation=1))
    published, pipeline = meddle(lambda _: theirs, times=1)
    with pytest.raises(Unavailable, match="another controller leads by now"):
        asyncio.run(publish(published, table(term=5, generation=7)))
    assert pipeline.held() == theirs


def test_the_table_of_a_leader_before_this_one_is_replaced(meddle: Meddle) -> None:
    """Such as a write of a controller that was paused within it."""
    published, pipeline = meddle(lambda _: signed(table(term=4, generation=900)), times=1)
    mine = table(term=5, generation=7)
    asyncio.run(publish(published, mine))
    assert pipeline.held() == signed(mine)


def test_false_tables_are_counted_one_by_one_and_logged_once(
    memcached: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[tuple[str, Refused]] = []
    pipeline = Meddled(memcached.address, lambda n: b"garbage %d" % n, times=1000)
    published = PublishedTables(
        pipeline, keys=Keyring(shared=KEY), refused=lambda *told: refused.append(told)
    )

    async def ticks() -> None:
        for generation in range(5):
            with pytest.raises(Unavailable):
                await publish(published, table(term=5, generation=generation))

    with caplog.at_level(logging.WARNING):
        asyncio.run(ticks())
    assert [upstream for upstream, _ in refused] == ["web"] * 5 * MOST_WRITES
    assert len([line for line in caplog.messages if "its order is not used" in line]) == 1
    pipeline.close()


ITEM_BYTES, CHUNK_BYTES = 200, 160
"""So that three servers make two chunks."""


def larger(*ids: str, generation: int = 7) -> WeightTable:
    rows = [TablePeer(id=i, address=f"10.0.0.1:{ord(i)}", weight=7, baseline=1, state="up") for i in ids]
    made = table(term=5, generation=generation)
    return weight_table.with_digest(replace(made, peers=tuple(rows)))


def chunk_keys(pipeline: Meddled) -> list[str]:
    manifest = table_chunks.decode(held_text(pipeline))
    assert isinstance(manifest, Manifest)
    return [wire.chunk_key("web", name) for name in manifest.chunks]


def held_text(pipeline: Meddled) -> bytes:
    text = signature.open_value(KEY, pipeline.held() or b"")
    assert isinstance(text, bytes)
    return text


@pytest.fixture
def now() -> dict[str, float]:
    """The time by the monotonic clock, in `s`."""
    return {"s": 1000.0}


@pytest.fixture
def chunked(memcached: Daemon, now: dict[str, float]) -> Iterator[tuple[PublishedTables, Meddled]]:
    pipeline = Meddled(memcached.address, lambda _: b"", times=0)
    published = PublishedTables(
        pipeline, keys=Keyring(shared=KEY), refused=_refuse_nothing, item_bytes=ITEM_BYTES,
        chunk_bytes=CHUNK_BYTES, clock=lambda: now["s"],
    )  # fmt: skip
    yield published, pipeline
    pipeline.close()


def _refuse_nothing(upstream: str, refused: Refused) -> None:
    pytest.fail(f"{upstream}: {refused}")


def latest(pipeline: Meddled) -> WeightTable:
    """Return the tables for a controller that begins to lead."""
    other = PublishedTables(pipeline, keys=Keyring(shared=KEY), refused=_refuse_nothing)
    return asyncio.run(other.latest(["web"]))["web"]


def test_a_table_that_an_item_does_not_hold_is_in_chunks_and_is_found_by_the_next_leader(
    chunked: tuple[PublishedTables, Meddled],
) -> None:
    published, pipeline = chunked
    mine = larger("a", "b", "c")
    asyncio.run(publish(published, mine))
    assert len(chunk_keys(pipeline)) == 2
    assert latest(pipeline) == mine
    assert pipeline.held(wire.head_key("web")) == signature.sign(KEY, weight_table.encode_head(mine))


def test_a_chunk_that_is_lost_is_back_with_the_next_table(chunked: tuple[PublishedTables, Meddled]) -> None:
    published, pipeline = chunked
    asyncio.run(publish(published, larger("a", "b", "c")))
    first, second = chunk_keys(pipeline)
    asyncio.run(pipeline.expire({server: [second] for server in pipeline.faults}, ttl_s=-1))
    assert (latest(pipeline).order, latest(pipeline).peers) == ((5, 7), ())
    later = larger("a", "b", "c", generation=8)
    asyncio.run(publish(published, later))
    assert chunk_keys(pipeline) == [first, second]
    assert latest(pipeline) == later


def test_what_somebody_else_wrote_in_the_place_of_a_chunk_is_replaced_in_time(
    chunked: tuple[PublishedTables, Meddled], now: dict[str, float]
) -> None:
    published, pipeline = chunked
    asyncio.run(publish(published, larger("a", "b", "c")))
    garbage = dict.fromkeys(chunk_keys(pipeline), b"garbage")
    asyncio.run(pipeline.keep(garbage, ttl_s=60, afresh=True))
    assert latest(pipeline).peers == ()
    now["s"] += published_chunks.REWRITE_S
    later = larger("a", "b", "c", generation=8)
    with pytest.raises(Forbidden):  # Nothing was rewritten, so that is still due.
        asyncio.run(published.publish([later], {}, certain=lambda: False, skip=set()))
    asyncio.run(publish(published, later))
    assert latest(pipeline) == later


def test_chunks_get_the_baselines_that_the_digest_leaves_out_in_time(
    chunked: tuple[PublishedTables, Meddled], now: dict[str, float]
) -> None:
    published, pipeline = chunked

    def of(baseline: int, generation: int) -> WeightTable:
        made = larger("a", "b", "c", generation=generation)
        rows = tuple(replace(peer, baseline=baseline) for peer in made.peers)
        return weight_table.with_digest(replace(made, peers=rows), [None] * len(rows))

    asyncio.run(publish(published, of(1, 7)))
    asyncio.run(publish(published, of(9, 8)))
    assert {peer.baseline for peer in latest(pipeline).peers} == {1}
    now["s"] += published_chunks.REWRITE_S
    asyncio.run(publish(published, of(9, 9)))
    assert latest(pipeline) == of(9, 9)


def test_chunks_that_are_named_no_more_expire_and_a_table_that_fits_again_is_whole(
    chunked: tuple[PublishedTables, Meddled],
) -> None:
    published, pipeline = chunked
    asyncio.run(publish(published, larger("a", "b", "c")))
    before = chunk_keys(pipeline)
    asyncio.run(publish(published, larger("a", "b", "d", generation=8)))
    after = chunk_keys(pipeline)
    assert not {*before} & {*after}
    assert max(map(pipeline.ttl_s, before)) <= published_chunks.RETIRED_TTL_S
    assert min(map(pipeline.ttl_s, after)) > TABLE_TTL_S - PATIENCE_S
    small = larger(generation=9)
    asyncio.run(publish(published, small))
    assert pipeline.held() == signed(small)
    assert max(map(pipeline.ttl_s, after)) <= published_chunks.RETIRED_TTL_S


def test_a_controller_that_may_not_write_any_more_writes_no_chunks(
    chunked: tuple[PublishedTables, Meddled],
) -> None:
    published, pipeline = chunked
    with pytest.raises(Forbidden):
        asyncio.run(published.publish([larger("a", "b", "c")], {}, certain=lambda: False, skip=set()))
    assert pipeline.held() is None
