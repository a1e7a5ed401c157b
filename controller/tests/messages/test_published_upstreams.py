"""The list of upstreams in a Memcached that another program writes to as well."""

import asyncio
from collections.abc import Iterator

import pytest
from pymemcache.client.base import Client
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_upstreams import REWRITE_S, PublishedUpstreams
from steelyard_controller.store.interface import LeaseLost
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_protocol import signature, upstream_list, wire
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.upstream_list import UpstreamList
from steelyard_protocol.wire import Refused

from testing.daemons import Daemon

from ..session import session

pytestmark = pytest.mark.integration

WEB = Upstream(peers=[Peer(id="a", address="10.0.0.1:80", baseline=1)])
KEY = b"an example key, never a real one"


class World:
    """A Memcached, a controller's list in it, and a clock that is set by hand."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.other = Client((host, int(port)))
        self.pool = MemcachedPool(address)
        self.now_s = 1000.0
        self.upstreams = PublishedUpstreams(self.pool, keys=Keyring(shared=KEY), clock=lambda: self.now_s)

    def publish(self, *names: str, term: int = 5) -> str | None:
        async def read_and_publish() -> str | None:
            lists = await self.upstreams.read(skip)
            return await self.upstreams.publish(names, lists, term=term, certain=lambda: True, skip=skip)

        skip: set[str] = set()
        return asyncio.run(read_and_publish())

    def listed(self) -> UpstreamList:
        text = signature.open_value(KEY, self.other.get(wire.UPSTREAMS_KEY))
        assert not isinstance(text, Refused)
        listed = upstream_list.decode(text)
        assert not isinstance(listed, Refused)
        return listed


@pytest.fixture
def world(memcached: Daemon) -> Iterator[World]:
    made = World(memcached.address)
    yield made
    made.pool.close()
    made.other.close()


def test_the_list_is_written_when_it_changes_and_its_generation_rises(world: World) -> None:
    assert world.publish("web", "api") is None
    assert (world.listed().names, world.listed().generation) == (("api", "web"), 1)
    world.publish("api", "web")
    assert world.listed().generation == 1
    world.publish("web")
    assert (world.listed().names, world.listed().term, world.listed().generation) == (("web",), 5, 2)
    world.publish()
    assert (world.listed().names, world.listed().generation) == ((), 3)
    world.publish("web", term=6)
    assert (world.listed().term, world.listed().generation) == (6, 1)


def test_the_list_is_written_again_long_before_it_expires(world: World) -> None:
    world.publish("web")
    world.now_s += REWRITE_S - 1
    world.publish("web")
    assert world.listed().generation == 1
    world.now_s += 1
    world.publish("web")
    assert world.listed().generation == 2


def test_a_list_that_is_lost_or_false_is_there_again_at_the_next_tick(world: World) -> None:
    world.publish("web")
    for false in (
        None,
        b"garbage",
        signature.sign(b"the key of nobody", upstream_list.encode(world.listed())),
    ):
        if false is None:
            world.other.delete(wire.UPSTREAMS_KEY, noreply=False)
        else:
            world.other.set(wire.UPSTREAMS_KEY, false, noreply=False)
        assert world.publish("web") is None
        assert world.listed().names == ("web",)


def test_the_list_of_a_leader_of_a_higher_term_is_left_there(world: World) -> None:
    theirs = UpstreamList(v=1, term=6, generation=1, issued_at_ms=1, names=("theirs",))
    world.other.set(wire.UPSTREAMS_KEY, signature.sign(KEY, upstream_list.encode(theirs)), noreply=False)
    assert "another controller leads" in str(world.publish("web"))
    assert world.listed() == theirs


def test_a_memcached_that_is_away_is_no_fault_of_the_list(world: World, memcached: Daemon) -> None:
    memcached.kill()
    assert world.publish("web") is None
    assert None not in world.pool.faults.values()


def test_a_forged_list_of_a_higher_term_ends_the_lead_and_the_next_one_begins_above_it(
    world: World, memcached: Daemon
) -> None:
    """Without a key, as from a forger."""

    async def lead() -> UpstreamList | Refused:
        async with session(memcached, None, file={"web": WEB}, store=MemoryStore()) as it:
            await it.lead()
            await it.tick(1.0)
            forged = UpstreamList(v=1, term=2**40, generation=7, issued_at_ms=1, names=("evil",))
            world.other.set(wire.UPSTREAMS_KEY, upstream_list.encode(forged), noreply=False)
            with pytest.raises(LeaseLost):
                await it.tick(2.0)
            await it.election.release()
            await it.lead()
            await it.tick(3.0)
            return upstream_list.decode(world.other.get(wire.UPSTREAMS_KEY))

    listed = asyncio.run(lead())
    assert not isinstance(listed, Refused)
    assert (listed.names, listed.term) == (("web",), 2**40 + 1)
