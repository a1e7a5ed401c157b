"""Redis as one server, behind Sentinels, or as a cluster. I/O only.

With replicas, Redis answers before they have a write, so a failover may lose
it. `run_on_replica` is for writes that must survive. It waits for one replica,
or for the configured number. If the primary has fewer replicas now, it waits for
all of these. A primary without any replica is not waited for.

All keys are in one hash slot (`redis_store`), so a cluster is one primary. Its
nodes are asked for that primary, as Sentinels are for theirs. redis-py's cluster
client would load all slots and all commands again after each fault. On a busy
machine that takes longer than a request may take.
"""

from collections.abc import Callable, Sequence
from typing import Any

import redis.asyncio as redis_client
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, RedisError

from steelyard_controller.store.redis_url import RedisUrl

# A replica on the same network has a write within a millisecond. This leaves time for the command itself.
REPLICA_TIMEOUT_MS = 100


class NotReplicated(RedisError):
    """The primary has the write, but no replica yet, so a failover may lose it."""


class RedisConnection:
    """A client of the Redis at a URL; a password in the URL takes precedence over `password`.

    `prefix` begins all keys. In a cluster it is in braces, and it alone decides the slot. `wait_replicas` is
    the number of replicas that `run_on_replica` waits for.
    """

    def __init__(
        self,
        url: RedisUrl,
        *,
        prefix: str,
        timeout_s: float,
        password: str | None,
        sentinel_password: str | None,
        wait_replicas: int = 1,
    ) -> None:
        self._url = url
        self._wait_replicas = wait_replicas
        self._finder: Sentinel | None = None
        self.client: redis_client.Redis
        # Without retries: the caller decides whether to try again.
        patience: dict[str, Any] = {
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s if url.kind == "server" else timeout_s / 2,
            "retry": Retry(NoBackoff(), 0),
        }
        options = {"password": password, **patience, **url.options}
        if url.kind == "server":
            self.client = redis_client.Redis.from_pool(redis_client.ConnectionPool(**options))
            return
        # Each host has half of the time, so that a host that hangs leaves time for the next one.
        patience["socket_timeout"] = timeout_s / 2
        if url.kind == "sentinel":
            asking = {"password": sentinel_password, **patience, **url.sentinel_options}
            self._finder = _Sentinels(url.hosts, sentinel_kwargs=asking, **options)  # type: ignore[no-untyped-call]
        else:
            self._finder = _ClusterNodes(
                url.hosts, slot=key_slot(prefix.encode()), sentinel_kwargs={**options, **patience}, **options
            )
        self.client = self._finder.master_for(url.primary)

    async def get_each(self, keys: Sequence[str]) -> list[Any]:
        """Return the value of each key, or the error that Redis answers for it."""
        # Not MGET, which reports a key of another type as missing.
        all_of_them = self.client.pipeline(transaction=False)
        for key in keys:
            all_of_them.get(key)
        answers: list[Any] = await all_of_them.execute(raise_on_error=False)
        return answers

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:  # noqa: ANN401
        """Run a script."""
        # Not by its digest: after a failover the new primary would not know it.
        return await self.client.eval(script, len(keys), *keys, *arguments)

    async def run_on_replica(
        self, script: str, keys: Sequence[str], arguments: Sequence[Any], *, is_written: Callable[[Any], bool]
    ) -> Any:  # noqa: ANN401
        """Run a script that writes, and wait for replicas; raise `NotReplicated`.

        `is_written` returns from the script's answer whether it wrote. WAIT waits for all writes before the
        connection's last command, of whatever kind. So without a write its answer is about other clients'.
        With one server's URL, the replicas are unknown, so it does not wait.
        """
        if self._url.kind == "server":
            return await self.run(script, keys, arguments)
        role: list[Any] = await self.client.execute_command("ROLE")  # type: ignore[no-untyped-call]
        if role[0] != b"master":
            raise NotReplicated("a failover is under way: the primary is a replica by now")
        if not role[2]:
            return await self.run(script, keys, arguments)
        # On one connection, because WAIT counts the writes of its own connection.
        pipeline = self.client.pipeline(transaction=False)
        pipeline.eval(script, len(keys), *keys, *arguments)
        needed = min(self._wait_replicas, len(role[2]))
        pipeline.wait(needed, REPLICA_TIMEOUT_MS)
        answer, replicas = await pipeline.execute()
        if replicas < needed and is_written(answer):
            raise NotReplicated(
                f"{replicas or 'none'} of the {len(role[2])} replicas has taken the write within "
                f"{REPLICA_TIMEOUT_MS} ms, and {needed} must"
            )
        return answer

    async def find_again(self) -> None:
        """Ask for the primary before the next command."""
        await self.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()
        for host in self._finder.sentinels if self._finder is not None else ():
            await host.aclose()


class _Sentinels(Sentinel):
    """Sentinels; one that did not answer is asked last the next time."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the primary."""
        try:
            primary: tuple[str, int] = await super().discover_master(service_name)
        except MasterNotFoundError as error:
            raise MasterNotFoundError(_remedy(str(error), service_name)) from None
        except BaseException:
            self.sentinels.append(self.sentinels.pop(0))
            raise
        return primary


class _ClusterNodes(Sentinel):
    """The nodes of a cluster; they are asked in turn, because one may be cut off."""

    def __init__(self, hosts: Sequence[tuple[str, int]], *, slot: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(hosts, **options)  # type: ignore[no-untyped-call]
        self._slot = slot

    async def discover_master(self, service_name: str) -> tuple[str, int]:  # noqa: ARG002
        """Return the address of the primary that has the keys."""
        failures: list[str] = []
        for node in tuple(self.sentinels):
            self.sentinels.append(self.sentinels.pop(0))
            try:
                ranges: list[Any] = await node.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
            except AuthenticationError:
                raise
            except (RedisError, OSError) as error:
                failures.append(str(error))
                continue
            for first, last, (host, port, *_), *_ in ranges:
                if first <= self._slot <= last:
                    # A node that does not know its own name sends none: use the host that was asked.
                    host_asked = node.connection_pool.connection_kwargs["host"]
                    return host.decode() if host else host_asked, port
            failures.append(f"no node has the slot {self._slot}")
        raise MasterNotFoundError(f"no node of the cluster knows the primary: {'; '.join(failures)}")


def _remedy(error: str, name: str) -> str:
    # The library's error has the Sentinels' answers as text only.
    if "uthentication" in error or "WRONGPASS" in error:
        return (
            "the Sentinels refuse the user and password, or require one: see sentinel_username in "
            "--state-url and --sentinel-password-file"
        )
    return (
        f"no Sentinel of --state-url knows a primary {name!a} that is up: it is down until a failover is "
        "over, or its name is another (redis-cli -p 26379 SENTINEL MASTERS)"
    )
