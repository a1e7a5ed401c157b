"""The store on a real Redis: its contents, its refusals, and its timeouts."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis as plain
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.store import lease as leases
from steelyard_controller.store.interface import LeaseLost, Rejected, Save, Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_controller.store.redis_store import RedisStore
from steelyard_controller.store.saved_state import NewerVersion, SavedState

from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

from ..proxies import Proxy, closing
from .redis_sets import certificate

pytestmark = pytest.mark.integration

DRAFT = Lease(holder='a "quoted" näme', boot="1", url="http://[::1]:8081", term=1_790_000_000)
WEB = Declaration(upstream=Upstream(peers=[Peer(id="a", address="10.0.0.1:80")]))
STATE = SavedState(term=3, generation=118, memories={"static": {"law": "static"}})


def run(store: Store, steps: Callable[[Any], Awaitable[None]]) -> None:
    async def session() -> None:
        try:
            await steps(store)
        finally:
            await store.close()

    asyncio.run(session())


def patient(daemon: Daemon) -> RedisStore:
    """Return a store that waits for a Redis on a busy machine."""
    return RedisStore(f"redis://{daemon.address}/0", timeout_s=PATIENCE_S)


def by_hand(daemon: Daemon) -> Any:
    return plain.Redis(port=daemon.port)


async def taken(store: Store, *, above: int = 0, lease_s: float = 60) -> Lease:
    lease = await store.acquire(DRAFT, lease_s=lease_s, above=above, patient=False)
    assert lease is not None
    return lease


def test_installations_in_one_database_are_apart(redis_server: Daemon) -> None:
    async def steps(shop: RedisStore) -> None:
        url = f"redis://{redis_server.address}/0"
        bank, only = (RedisStore(url, timeout_s=PATIENCE_S, installation=name) for name in ("bank", ""))
        leases = [await taken(store) for store in (shop, bank, only)]
        assert len({lease.store for lease in leases}) == 3
        await shop.declare(leases[0], {"web": WEB})
        await shop.keep(leases[0], {"web": Save(state=STATE, moment=b"{}")})
        assert set((await shop.declarations()).known) == {"web"}
        for store, lease in ((bank, leases[1]), (only, leases[2])):
            assert (await store.declarations()).known == {}
            assert await store.load(["web"]) == {}
            assert await store.history("web", seconds=60, most=9) == []
            assert await store.renew(lease, lease_s=60)
            await store.close()
        keys = {key.decode() for key in by_hand(redis_server).keys("*shop*")}
        assert {key for key in keys if not key.startswith("steelyard:installation:shop:")} == set()
        assert "steelyard:installation:shop:1:state:web" in keys

    run(
        RedisStore(f"redis://{redis_server.address}/0", timeout_s=PATIENCE_S, installation="shop"),
        steps,
    )


def test_a_lease_is_one_controllers_and_its_term_only_rises(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        assert await store.leader() is None
        first = await taken(store)
        assert (first.holder, first.url, first.term) == (DRAFT.holder, DRAFT.url, DRAFT.term)
        assert await store.leader() == replace(first, store="")
        other = replace(DRAFT, holder="b", boot="2")
        stored = await store.acquire(other, lease_s=60, above=0, patient=False)
        assert stored == first
        assert not await store.renew(replace(first, boot="2"), lease_s=60)
        assert await store.renew(first, lease_s=60)
        await store.release(replace(first, boot="2"))
        assert await store.leader() is not None
        await store.release(first)
        second = await store.acquire(other, lease_s=60, above=0, patient=False)
        assert second is not None
        assert (second.holder, second.term, second.store) == ("b", first.term + 1, first.store)

    run(patient(redis_server), steps)


def test_a_term_is_above_the_one_that_was_seen_in_use(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        assert (await taken(store, above=DRAFT.term + 41)).term == DRAFT.term + 42

    run(patient(redis_server), steps)


def test_the_highest_terms_are_written_exactly(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        lease = await taken(store, above=2**53 - 2)
        assert lease.term == 2**53 - 1
        await store.release(lease)
        assert (await taken(store)).term == 2**53

    run(patient(redis_server), steps)


def test_an_empty_store_gives_a_patient_one_nothing(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        assert await store.acquire(DRAFT, lease_s=60, above=5, patient=True) is None
        assert by_hand(redis_server).keys() == []
        lease = await taken(store)
        await store.release(lease)
        again = await store.acquire(DRAFT, lease_s=60, above=5, patient=True)
        assert again is not None
        by_hand(redis_server).flushall()
        assert (await taken(store)).store != lease.store

    run(patient(redis_server), steps)


def test_whoever_has_not_the_lease_writes_nothing(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        lease = await taken(store)
        await store.declare(lease, {"web": WEB})
        before = {key: by_hand(redis_server).dump(key) for key in by_hand(redis_server).scan_iter()}
        old = replace(lease, term=lease.term - 1)
        for write in (
            store.declare(old, {"web": None}),
            store.declare(old, {"api": WEB}),
            store.keep(old, {"web": Save(state=STATE)}),
            store.keep(old, {"web": Save(moment=b"{}", most=5)}),
        ):
            with pytest.raises(LeaseLost):
                await write
        assert {key: by_hand(redis_server).dump(key) for key in by_hand(redis_server).scan_iter()} == before

    run(patient(redis_server), steps)


@pytest.mark.parametrize("make", [patient, lambda _: MemoryStore()], ids=["redis", "memory"])
def test_what_is_kept_comes_back_and_what_is_deleted_leaves_nothing(
    redis_server: Daemon, make: Callable[[Daemon], Store]
) -> None:
    async def steps(store: Store) -> None:
        lease = await taken(store)
        await store.declare(lease, {"web": WEB, "api": WEB})
        both = Save(state=STATE, moment=b'{"at_ms":1}', most=5)
        assert await store.keep(lease, {"web": both, "api": both}) == {}
        assert (await store.declarations()).known == {"web": WEB, "api": WEB}
        assert await store.load(["web"]) == {"web": STATE}
        assert await store.history("web", seconds=60, most=10) == [b'{"at_ms":1}']
        await store.declare(lease, {"web": None})
        # From the tick that was under way at the deletion.
        await store.keep(lease, {"web": Save(state=STATE, moment=b"{}", most=5)})
        assert (await store.declarations()).known == {"api": WEB}
        assert await store.load(["web", "api"]) == {"api": STATE}
        assert await store.history("web", seconds=60, most=10) == []
        assert by_hand(redis_server).keys("*web*") == []

    run(make(redis_server), steps)


def test_history_is_capped_and_the_last_ones_are_given(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        lease = await taken(store)
        await store.declare(lease, {"web": WEB})
        for number in range(1000):
            await store.keep(lease, {"web": Save(moment=b"%d" % number, most=100)})
        assert by_hand(redis_server).xlen("steelyard:1:history:web") < 300
        assert await store.history("web", seconds=60, most=3) == [b"997", b"998", b"999"]

    run(patient(redis_server), steps)


def test_a_hundred_upstreams_of_a_hundred_peers_are_declared_at_once(redis_server: Daemon) -> None:
    peers = [Peer(id=f"server-{n}", address=f"10.0.0.{n}:80") for n in range(100)]
    many = {f"up-{n}": Declaration(upstream=Upstream(peers=peers)) for n in range(100)}

    async def steps(store: RedisStore) -> None:
        await store.declare(await taken(store), many)
        assert (await store.declarations()).known == many

    run(patient(redis_server), steps)


@pytest.mark.parametrize("schema", [b"2", b"x", b"99999999999999999999"])
def test_a_newer_schema_is_refused_and_nothing_is_written(redis_server: Daemon, schema: bytes) -> None:
    by_hand(redis_server).set("steelyard:schema", schema)

    async def steps(store: RedisStore) -> None:
        with pytest.raises(NewerVersion, match="run the newer controller, or name another database"):
            await store.open()
        # The schema may also rise while this program runs.
        with pytest.raises(NewerVersion):
            await store.acquire(DRAFT, lease_s=60, above=0, patient=False)
        assert by_hand(redis_server).keys() == [b"steelyard:schema"]

    run(patient(redis_server), steps)


def test_garbage_in_the_keys_is_refused_and_left_there(
    redis_server: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    hand = by_hand(redis_server)
    garbage = {b"web": b"\xff", b"api": b'{"v":2}', b"\xff\xfe": b"{}", b"a b": b"{}"}
    hand.hset("steelyard:1:declarations", mapping=garbage)
    hand.set("steelyard:1:state:web", b"garbage")
    hand.rpush("steelyard:1:state:api", "a list")
    hand.set("steelyard:1:history:web", b"no stream")
    hand.set("steelyard:1:term", b"1e999")
    hand.rpush("steelyard:1:store", "a list")

    async def steps(store: RedisStore) -> None:
        stored = await store.declarations()
        assert (stored.known, {"web", "api", "a b"} <= stored.damaged) == ({}, True)
        assert await store.load(["web", "api"]) == {}
        lease = await taken(store)
        assert lease.term == DRAFT.term
        save = Save(state=STATE, moment=b"{}", most=5)
        refused = await store.keep(lease, {"web": save, "api": save})
        assert isinstance(refused["web"], Rejected)
        assert "something else in steelyard:1:history:web;" in str(refused["web"])
        with pytest.raises(Rejected, match="something else in steelyard:1:history:web"):
            await store.history("web", seconds=60, most=5)
        # Its state is saved all the same, and so is the other upstream.
        assert refused.keys() == {"web"}
        assert await store.load(["web", "api"]) == {"web": STATE, "api": STATE}
        assert await store.history("api", seconds=60, most=5) == [b"{}"]

    run(patient(redis_server), steps)
    assert hand.hgetall("steelyard:1:declarations") == garbage
    assert hand.get("steelyard:1:history:web") == b"no stream"
    assert (
        len([line for line in caplog.messages if "cannot be read" in line and "declaration of" in line]) == 4
    )


@pytest.mark.parametrize("value", [b"garbage", b"{}", b'{"holder":1,"boot":"x","url":"y","term":3}'])
def test_a_lease_that_is_none_says_which_key_to_delete(redis_server: Daemon, value: bytes) -> None:
    by_hand(redis_server).set("steelyard:1:lease", value)

    async def steps(store: RedisStore) -> None:
        with pytest.raises(Rejected, match=r"steelyard:1:lease holds .* which is not a lease: delete it"):
            await store.leader()
        with pytest.raises(Rejected, match="delete it"):
            await taken(store)

    run(patient(redis_server), steps)
    assert by_hand(redis_server).get("steelyard:1:lease") == value


def test_declarations_of_another_type_say_which_key_to_delete(redis_server: Daemon) -> None:
    by_hand(redis_server).set("steelyard:1:declarations", b"x")

    async def steps(store: RedisStore) -> None:
        with pytest.raises(Rejected, match="something else in steelyard:1:declarations"):
            await store.declarations()

    run(patient(redis_server), steps)


@contextmanager
def server(folder: Path, *flags: str, port: int | None = None) -> Iterator[Daemon]:
    port = port or free_port()
    command = [
        "redis-server",
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--dir",
        str(folder),
        "--save",
        "",
        *flags,
    ]
    daemon = Daemon(command, port, folder / "redis.log")
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.kill()


async def answers(store: RedisStore) -> bool:
    with contextlib.suppress(Unavailable):
        await store.leader()
        return True
    return False


async def works(store: RedisStore) -> None:
    await store.open()
    assert (await taken(store)).holder == DRAFT.holder


def test_a_password_in_the_url(tmp_path: Path) -> None:
    with server(tmp_path, "--requirepass", "s3cret") as daemon:
        run(RedisStore(f"redis://:s3cret@{daemon.address}/0"), works)

        async def refused(store: RedisStore) -> None:
            with pytest.raises(Unavailable, match="refuses the user and the password") as error:
                await store.open()
            assert "wrong" not in str(error.value)

        for wrong in ("", ":wrong@"):
            run(RedisStore(f"redis://{wrong}{daemon.address}/0"), refused)


def test_a_unix_socket(tmp_path: Path) -> None:
    with server(tmp_path, "--unixsocket", str(tmp_path / "redis.sock")):
        run(RedisStore(f"unix://{tmp_path}/redis.sock?db=0"), works)


def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    file, flags = certificate(tmp_path)
    tls = free_port()
    with server(tmp_path, "--tls-port", str(tls), *flags):
        # On a busy machine, the first handshake may take longer than a request may.
        async def works_in_time(store: RedisStore) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not await answers(store):
                    await asyncio.sleep(0.05)
            await works(store)

        run(RedisStore(f"rediss://127.0.0.1:{tls}/0?ssl_ca_certs={file}"), works_in_time)

        async def why_not(store: RedisStore) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    with pytest.raises(Unavailable) as refused:
                        await store.open()
                    if "certificate" in str(refused.value).lower():
                        return
                    assert "did not answer" in str(refused.value)

        run(RedisStore(f"rediss://127.0.0.1:{tls}/0"), why_not)


def test_a_redis_that_takes_connections_and_never_answers_is_away(redis_server: Daemon) -> None:
    proxy = Proxy(redis_server.port)
    with closing(proxy):

        async def steps(store: RedisStore) -> None:
            await store.open()
            proxy.hang()
            for _ in range(2):
                with pytest.raises(Unavailable, match="did not answer within"):
                    await store.leader()
            proxy.mend()
            async with asyncio.timeout(PATIENCE_S):
                while not await answers(store):
                    pass

        run(RedisStore(f"redis://{proxy.address}/0"), steps)


def test_a_redis_that_was_started_again_is_found_again(redis_server: Daemon) -> None:
    async def steps(store: RedisStore) -> None:
        await taken(store)
        redis_server.kill()
        with pytest.raises(Unavailable):
            await store.leader()
        redis_server.start()
        assert await store.leader() is None
        assert (await taken(store)).term == DRAFT.term

    run(patient(redis_server), steps)


@given(
    st.builds(
        Lease, holder=st.text(max_size=20), boot=st.text(max_size=8), url=st.text(max_size=30),
        term=st.integers(0, 2**53),
    )
)  # fmt: skip
def test_a_lease_survives_its_text_and_the_text_is_always_the_same(lease: Lease) -> None:
    assert leases.decode(leases.encode(lease)) == lease
    assert leases.encode(lease).endswith(f"{lease.term}}}")


@given(st.binary(max_size=80) | st.sampled_from([b"[" * 50_000, b"[]", b"1", b'{"holder":"a"}']))
def test_what_is_no_lease_is_none(text: bytes) -> None:
    assert leases.decode(text) is None
