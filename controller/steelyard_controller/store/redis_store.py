"""The state store in Redis. I/O only.

    steelyard:schema                 the version of all keys below; a newer one is refused
    steelyard:1:store                a random name of this store: a wiped store gets another
    steelyard:1:lease                the leader's lease (`lease.encode`), with a time to live
    steelyard:1:term                 the last term given out
    steelyard:1:declarations         a hash: upstream -> declaration
    steelyard:1:state:<upstream>     generation and the laws' memories
    steelyard:1:history:<upstream>   a stream of moments, capped
    steelyard:1:audit:people         a stream of changes with their authors, capped
    steelyard:1:audit:machines       the same for agents and Kubernetes
    steelyard:1:audit:files          the same for configuration files

In a Redis Cluster they begin with `{steelyard}:`. So all of them are on one
node, because a script reads and writes several at once. The keys of an
installation with a name begin with `steelyard:installation:<name>:`, in a
cluster with `{steelyard:installation:<name>}:`.

Every write is a script of `redis_scripts` that first compares the lease with
the writer's own. So a controller that was paused for minutes changes nothing
when it wakes. A request takes at most `timeout_s`, including connection, TLS,
password and command.

A failover by Sentinels or a cluster may replace the primary by a replica. There,
a term and a declaration count as written when `wait_replicas` replicas have them.
"""

import asyncio
import functools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from redis.exceptions import AuthenticationError, RedisError, ResponseError
from steelyard_protocol import wire

from steelyard_controller.declarations import declaration as declarations
from steelyard_controller.declarations.audit import KEPT_ENTRIES, LOGS, Entry
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.store import lease as leases
from steelyard_controller.store import redis_errors, redis_url
from steelyard_controller.store import redis_scripts as scripts
from steelyard_controller.store import saved_state as states
from steelyard_controller.store.interface import (
    SCHEMA,
    LeaseLost,
    Rejected,
    Save,
    StoredDeclarations,
    Unavailable,
)
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.redis_connection import RedisConnection
from steelyard_controller.store.saved_state import NewerVersion, SavedState

log = logging.getLogger("steelyard.controller")

# Redis on the same network answers within milliseconds; a tick must not wait for a Redis that does not.
TIMEOUT_S = 0.25

# The history of 10,000 servers is megabytes, but no tick waits for it.
HISTORY_TIMEOUT_S = 2.0


Read = Mapping[str, tuple[bytes, Declaration | str]]
"""Redis's text of each declaration, by upstream, with its contents, or why it cannot be read."""


class RedisStore:
    """The store in Redis; it raises ValueError for an unreadable URL.

    `installation` names the installation, empty for the only one. `took` is called with the duration of each
    request, in seconds.
    """

    volatile = False

    def __init__(
        self,
        url: str,
        *,
        installation: str = "",
        password: str | None = None,
        sentinel_password: str | None = None,
        timeout_s: float = TIMEOUT_S,
        wait_replicas: int = 1,
        took: Callable[[float], None] = lambda _: None,
    ) -> None:
        read = redis_url.parse(url)
        self._took = took
        self._timeout_s, self._history_timeout_s = timeout_s, max(timeout_s, HISTORY_TIMEOUT_S)
        self._kind = read.kind
        prefix = _prefix(installation, is_cluster=read.kind == "cluster")
        self._redis, self._patient = (
            RedisConnection(
                read,
                prefix=prefix,
                timeout_s=each_s,
                password=password,
                sentinel_password=sentinel_password,
                wait_replicas=wait_replicas,
            )
            for each_s in (self._timeout_s, self._history_timeout_s)
        )
        self._read: Read = {}
        self._schema, self._prefix = f"{prefix}:schema", f"{prefix}:{SCHEMA}:"
        self._lease, self._declarations = f"{self._prefix}lease", f"{self._prefix}declarations"
        self._audit = [f"{self._prefix}audit:{name}" for name in LOGS]

    async def open(self) -> None:
        """Check the schema."""
        schema = await self._ask(lambda: self._redis.client.get(self._schema), self._schema)
        if schema is not None:
            _refuse_newer(schema)

    async def leader(self) -> Lease | None:
        """Return the current lease."""
        text = await self._ask(lambda: self._redis.client.get(self._lease), self._lease)
        return None if text is None else self._read_lease(text)

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease | None:
        """Take the lease if it is free."""
        head = leases.encode(replace(draft, term=0)).removesuffix("0}")
        keys = [self._schema, f"{self._prefix}store", self._lease, f"{self._prefix}term"]
        arguments: list[Any] = [
            SCHEMA, int(patient), secrets.token_hex(8), draft.term, above, head, round(lease_s * 1000)
        ]  # fmt: skip

        def is_own(answer: list[bytes]) -> bool:
            return answer[0] == b"held" and answer[1].startswith(head.encode())

        answer, *rest = await self._ask(
            lambda: self._redis.run_on_replica(scripts.ACQUIRE, keys, arguments, is_written=is_own), *keys
        )
        if answer == b"schema":
            _refuse_newer(rest[0])
        if answer == b"empty":
            return None
        text, store = rest
        return replace(self._read_lease(text), store=store.decode(errors="replace"))

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        """Renew the lease."""
        arguments: list[Any] = [leases.encode(lease), round(lease_s * 1000)]
        return bool(
            await self._ask(lambda: self._redis.run(scripts.RENEW, [self._lease], arguments), self._lease)
        )

    async def release(self, lease: Lease) -> None:
        """Release the lease."""
        arguments = [leases.encode(lease)]
        await self._ask(lambda: self._redis.run(scripts.RELEASE, [self._lease], arguments), self._lease)

    async def declarations(self) -> StoredDeclarations:
        """Return all declarations."""
        fields = await self._ask(
            lambda: cast(Awaitable[dict[bytes, bytes]], self._redis.client.hgetall(self._declarations)),
            self._declarations,
        )
        known: dict[str, Declaration] = {}
        damaged = set()
        # Thousands take half a second, and a new leader reads them before it has the lease and after.
        self._read = await asyncio.to_thread(_declared, fields, self._read)
        for name, (_, declared) in self._read.items():
            if isinstance(declared, str):
                damaged.add(name)
                log.error(
                    "the declaration of %s in Redis (%s) cannot be read: %s; it is ignored, and stays there",
                    ascii(name), self._declarations, declared, extra={"event": "damaged", "upstream": name},
                )  # fmt: skip
            else:
                known[name] = declared
        return StoredDeclarations(known=known, damaged=frozenset(damaged))

    async def declare(
        self, lease: Lease, changes: Mapping[str, Declaration | None], audit: Sequence[Entry] = ()
    ) -> None:
        """Store declarations, or delete upstreams, in one script with their audit entries."""
        gone = [name for name, declaration in changes.items() if declaration is None]
        about = [key for name in gone for key in (self._state_key(name), self._history_key(name))]
        arguments: list[Any] = [leases.encode(lease), KEPT_ENTRIES, len(self._audit), len(audit)]
        for entry in audit:
            arguments += [entry.log, entry.value]
        for name, declaration in changes.items():
            arguments += [name, b"" if declaration is None else declarations.encode(declaration)]
        keys = [self._lease, self._declarations, *self._audit, *about]
        _judge(
            await self._ask(
                lambda: self._redis.run_on_replica(scripts.DECLARE, keys, arguments, is_written=bool),
                self._declarations,
                *self._audit,
            )
        )

    async def audit(self, *, before: int | None, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the newest entries."""
        newest, entries = "+" if before is None else str(before - 1), list[tuple[int, bytes]]()
        for key in self._audit:
            request = functools.partial(self._patient.client.xrevrange, key, newest, count=most)
            of_log = await self._ask(request, key, within_s=self._history_timeout_s)
            entries += [(int(id.partition(b"-")[0]), fields.get(b"e", b"")) for id, fields in of_log]
        return sorted(entries, reverse=True)[:most]

    async def load(self, upstreams: Sequence[str]) -> Mapping[str, SavedState]:
        """Return the saved states."""
        keys = [self._state_key(upstream) for upstream in upstreams]
        answers = await self._ask(lambda: self._redis.get_each(keys))
        values: dict[str, bytes] = {}
        for upstream, key, answer in zip(upstreams, keys, answers, strict=True):
            if isinstance(answer, Exception):
                error = await self._of_library(answer, [key])
                if not isinstance(error, Rejected):
                    raise error
                log.error(
                    "%s; the laws start afresh", error, extra={"event": "damaged", "upstream": upstream}
                )
            elif answer is not None:
                values[upstream] = answer
        decoded = await asyncio.to_thread(lambda: [states.decode(value) for value in values.values()])
        by_name = dict(zip(values, decoded, strict=True))
        for upstream in [name for name, saved in by_name.items() if saved is None]:
            log.error(
                "%s in Redis cannot be read; the laws start afresh, and the next state replaces it",
                self._state_key(upstream), extra={"event": "damaged", "upstream": upstream},
            )  # fmt: skip
        return {name: saved for name, saved in by_name.items() if saved is not None}

    async def keep(self, lease: Lease, saves: Mapping[str, Save]) -> Mapping[str, Unavailable]:
        """Write the states, which do not expire, and add the moments; a stream's length is approximate."""
        if not saves:
            return {}
        keys = [self._lease, self._declarations]
        arguments: list[Any] = [leases.encode(lease)]
        for upstream, save in saves.items():
            keys += [self._state_key(upstream), self._history_key(upstream)]
            text = b"" if save.state is None else states.encode(save.state)
            arguments += [upstream, text, save.most, save.moment]
        answers = await self._ask(lambda: self._redis.run(scripts.KEEP, keys, arguments))
        _judge(answers)
        failed: dict[str, Unavailable] = {}
        for (upstream, save), answer in zip(saves.items(), answers, strict=True):
            if isinstance(answer, Exception):
                # Only the history's key may have another type here: a state replaces a value of any type.
                key = self._history_key(upstream) if save.moment else self._state_key(upstream)
                failed[upstream] = await self._of_library(answer, [key])
        return failed

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the last moments."""
        key = self._history_key(upstream)
        arguments = [round(seconds * 1000), most]
        entries = await self._ask(
            lambda: self._patient.run(scripts.HISTORY, [key], arguments),
            key,
            within_s=self._history_timeout_s,
        )
        return [fields[1] for _, fields in reversed(entries) if fields[0] == b"m"]

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.close()
        await self._patient.close()

    async def _ask(self, ask: Callable[[], Awaitable[Any]], *keys: str, within_s: float | None = None) -> Any:  # noqa: ANN401
        within_s, began_s = within_s or self._timeout_s, time.monotonic()
        try:
            async with asyncio.timeout(within_s):
                return await ask()
        except TimeoutError:
            raise Unavailable(f"Redis did not answer within {within_s:g} s") from None
        except (RedisError, OSError) as error:
            raise await self._of_library(error, keys) from None
        except (ValueError, LookupError) as error:
            # The client library raises these for an answer that is not Redis's protocol.
            raise Unavailable(f"the server at --state-url is not a Redis: {error}") from None
        finally:
            self._took(time.monotonic() - began_s)

    async def _of_library(self, error: Exception, keys: Sequence[str]) -> Unavailable:
        code = redis_errors.cluster_code(error)
        if code in redis_errors.ELSEWHERE:
            await self._redis.find_again()
            await self._patient.find_again()
        if isinstance(error, AuthenticationError):
            # Redis's own message is about HELLO, a command that nobody typed.
            return Unavailable("Redis refuses the user and the password of --state-url, or requires one")
        if code is not None:
            if self._kind == "server":
                return Unavailable("this Redis is a node of a cluster: write redis+cluster:// in --state-url")
            return Unavailable("a failover is under way: another node has the keys by now")
        text = str(error)
        if "cluster support disabled" in text:
            return Unavailable("this Redis is not a cluster: write redis:// in --state-url")
        if text.startswith("unknown command"):
            return Unavailable(
                "the server at --state-url stores no data; a Sentinel's URL is redis+sentinel://host:26379/NAME"
            )
        if text.startswith("WRONGTYPE"):
            return Rejected(
                f"Redis holds something else in {' or '.join(keys)}; it stays there until you delete it"
            )
        if isinstance(error, ResponseError):
            return Rejected(f"{', '.join(keys)}: {text}")
        return Unavailable(redis_errors.text(error))

    def _read_lease(self, text: bytes) -> Lease:
        lease = leases.decode(text)
        if lease is None:
            raise Rejected(f"{self._lease} holds {text[:80]!r}, which is not a lease: delete it")
        return lease

    def _state_key(self, upstream: str) -> str:
        return f"{self._prefix}state:{upstream}"

    def _history_key(self, upstream: str) -> str:
        return f"{self._prefix}history:{upstream}"


def _prefix(installation: str, *, is_cluster: bool) -> str:
    name = f"steelyard:installation:{installation}" if installation else "steelyard"
    return f"{{{name}}}" if is_cluster else name


def _declared(fields: Mapping[bytes, bytes], before: Read) -> Read:
    """Return the contents of each field of the hash, decoded if it differs from `before`."""
    read: dict[str, tuple[bytes, Declaration | str]] = {}
    for field, value in fields.items():
        name = field.decode(errors="replace")
        if name in before and before[name][0] == value:
            read[name] = before[name]
        elif wire.NAME.fullmatch(name) is None:
            read[name] = value, "no upstream can have this name"
        else:
            read[name] = value, declarations.decode(value)
    return read


def _judge(written: object) -> None:
    if not written:
        raise LeaseLost("another controller has the lease, or it ran out")


def _refuse_newer(schema: bytes) -> None:
    if not schema.isdigit() or len(schema) > 9 or int(schema) > SCHEMA:
        shown = schema[:40].decode(errors="replace")
        raise NewerVersion(
            f"Redis holds the schema {shown!r}, but this program knows {SCHEMA}: "
            "run the newer controller, or name another database in --state-url"
        )
