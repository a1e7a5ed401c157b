"""Redis behind Sentinels and as a cluster: the state after a failover, and errors of wrong URLs."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from steelyard_controller.store.interface import Unavailable
from steelyard_controller.store.redis_store import RedisStore

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S, wait_until

from ..controllers import Controller, has_one_writer, learnt, moved
from ..controllers import cluster as controllers
from ..processes import LOCAL, own_token
from .redis_sets import NAME, RedisSet, behind_sentinels, certificate, cluster, wait
from .test_redis_store import DRAFT, WEB, answers, run, taken

pytestmark = [
    pytest.mark.integration,
    # If the deadline cancels a connect just as it succeeds, its socket is left to the garbage collector
    # (asyncio's create_connection). Sentinels that hang cause this.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

UNHEARD = r"none of the 1 replicas|did not answer"

WORD = "s3cret"

API = {"peers": [{"id": "x", "address": "10.0.1.1:80"}]}


def moments(controller: Controller) -> list[int]:
    """Return the times of the moments in the history."""
    return [moment["at_ms"] for moment in controller.get("/v1/upstreams/web/history")["moments"]]


@pytest.mark.parametrize("redis_set", [behind_sentinels, cluster])
def test_a_failover_under_load_takes_nothing_back(
    redis_set: Callable[[Path], AbstractContextManager[RedisSet]], memcached: Daemon, tmp_path: Path
) -> None:
    with redis_set(tmp_path) as redis, controllers(memcached, redis.primary, tmp_path) as them:
        both = [them.controller(name, "--state-url", redis.url) for name in "ab"]
        leader = them.leads(*both)
        (standby,) = (each for each in both if each is not leader)
        learnt(them, leader)
        url = f"http://127.0.0.1:{leader.port}/v1/upstreams/api"
        assert LOCAL.put(url, json=API, headers=own_token()).status_code in {200, 201}
        before, begun = moments(leader), them.table().order
        redis.primary.kill()
        # From memory, until another primary has the keys.
        them.ticks(5, leader)
        wait(redis.is_promoted, "the failover")
        wait_until(lambda: (leader.get("/v1/service") or {}).get("degraded") == [], "mending")
        leader = them.leads(*both)
        (standby,) = (each for each in both if each is not leader)
        assert set(redis.ask(redis.replica, "HKEYS", f"{redis.tag}:1:declarations")) == {b"web", b"api"}
        term = redis.ask(redis.replica, "GET", f"{redis.tag}:1:term")
        assert int(term) == them.writes.stored[-1].table.term
        wait_until(lambda: moments(leader)[-1] > before[-1], "history again")
        assert set(before[-5:-1]) <= set(moments(leader))
        leader.signal(signal.SIGKILL)
        assert them.leads(standby) is standby
        them.ticks(5, standby)
        writes = [write for write in them.writes.stored if write.table.upstream == "web"]
        has_one_writer(writes)
        assert moved([write for write in writes if write.order >= begun]) < 0.05
        assert set(before[-5:-1]) <= set(moments(standby))
        assert standby.get("/v1/upstreams/api/declaration")["peers"][0]["id"] == "x"


async def until(works: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await works():
            await asyncio.sleep(0.05)


def test_behind_sentinels_with_passwords_and_tls(tmp_path: Path) -> None:
    file, tls = certificate(tmp_path)
    flags = [*tls, "--tls-replication", "yes", "--requirepass", WORD, "--masterauth", WORD]
    connect: dict[str, Any] = {"password": WORD, "ssl": True, "ssl_ca_certs": str(file)}
    with behind_sentinels(tmp_path, *flags, **connect) as redis:
        url = f"{redis.url.replace('redis+', 'rediss+')}?ssl_ca_certs={file}"

        async def works(store: RedisStore) -> None:
            await until(lambda: answers(store))
            await until(lambda: declares(store))

        run(RedisStore(url, password=WORD, sentinel_password=WORD), works)
        for known, says in (
            ({"sentinel_password": WORD}, "Redis refuses the user and the password"),
            ({"password": WORD}, "--sentinel-password-file"),
        ):
            run(RedisStore(url, **known), lambda store, says=says: refuses(store, says))  # type: ignore[misc, arg-type]


async def declares(store: RedisStore) -> bool:
    try:
        lease = await taken(store)
        await store.declare(lease, {"web": WEB})
    except Unavailable:
        return False
    return True


async def refuses(store: RedisStore, says: str) -> None:
    """Wait until a store gives the reason why it is unreachable."""

    async def said() -> bool:
        try:
            await store.leader()
        except Unavailable as error:
            return says in str(error)
        return False

    await until(said)


def test_a_term_and_a_declaration_count_once_a_replica_has_them(tmp_path: Path) -> None:
    with behind_sentinels(tmp_path) as redis:

        async def steps(store: RedisStore) -> None:
            await until(lambda: declares(store))
            lease = await store.leader()
            assert lease is not None
            assert redis.replica.process is not None
            redis.replica.process.send_signal(signal.SIGSTOP)
            with pytest.raises(Unavailable, match=UNHEARD):
                await store.declare(lease, {"web": None})
            await store.release(lease)
            with pytest.raises(Unavailable, match=UNHEARD):
                await store.acquire(DRAFT, lease_s=60, above=lease.term, patient=False)
            # A primary without replicas is not waited for.
            redis.replica.kill()
            wait(lambda: not redis.ask(redis.primary, "ROLE")[2], "the replica to be gone")
            await until(lambda: declares(store))

        run(RedisStore(redis.url), steps)

        async def answering(store: RedisStore) -> None:
            await until(lambda: answers(store))

        # Two of three hang, and each time another one is asked first.
        for sentinel in redis.others[:2]:
            assert sentinel.process is not None
            sentinel.process.send_signal(signal.SIGSTOP)
        run(RedisStore(redis.url), answering)
        for sentinel in redis.others[:2]:
            sentinel.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
        name = redis.url.replace(NAME, "another")
        run(RedisStore(name), lambda store: refuses(store, "its name is another"))
        sentinel_alone = f"redis://{redis.others[2].address}/0"
        run(RedisStore(sentinel_alone), lambda store: refuses(store, "redis+sentinel://"))
        no_cluster = f"redis+cluster://{redis.primary.address}"
        run(RedisStore(no_cluster), lambda store: refuses(store, "is not a cluster"))


def test_as_many_replicas_must_have_it_as_are_asked_for(tmp_path: Path) -> None:
    with behind_sentinels(tmp_path, replicas=2) as redis:
        wait(lambda: len(redis.ask(redis.primary, "ROLE")[2]) == 2, "both replicas")
        assert redis.replica.process is not None
        redis.replica.process.send_signal(signal.SIGSTOP)

        async def with_one(store: RedisStore) -> None:
            await until(lambda: declares(store))

        async def with_both(store: RedisStore) -> None:
            lease = await store.leader()
            assert lease is not None
            with pytest.raises(Unavailable, match=r"1 of the 2 replicas .* and 2 must|did not answer"):
                await store.declare(lease, {"web": None})

        run(RedisStore(redis.url), with_one)
        run(RedisStore(redis.url, wait_replicas=2), with_both)
        redis.replica.kill()
        wait(lambda: len(redis.ask(redis.primary, "ROLE")[2]) == 1, "the replica to be gone")
        run(RedisStore(redis.url, wait_replicas=2), with_one)


def test_a_cluster_has_each_installation_on_a_node_and_none_is_a_redis_by_itself(tmp_path: Path) -> None:
    with cluster(tmp_path) as redis:
        alone = f"redis://{redis.others[0].address}/0"
        run(RedisStore(alone), lambda store: refuses(store, "write redis+cluster://"))

        async def steps(store: RedisStore) -> None:
            await until(lambda: declares(store))  # the node's replica may have the write late
            assert set((await store.declarations()).known) == {"web"}

        # Each of these is on another node.
        for installation in ("shop", "bank", "eu"):
            run(RedisStore(redis.url, installation=installation, timeout_s=PATIENCE_S), steps)
            tag = f"{{steelyard:installation:{installation}}}"
            nodes = [redis.primary, *redis.others]
            held = [sorted(redis.ask(node, "KEYS", f"{tag}:*")) for node in nodes]
            assert len([keys for keys in held if keys]) == 1
            assert any(f"{tag}:schema".encode() in keys for keys in held)
