"""The store in Redis. I/O only.

    steelyard:schema                 the version of all below; a newer one is refused
    steelyard:1:store                a random name of this store: a wiped one gets another
    steelyard:1:lease                who leads (`lease.encode`), with a time to live
    steelyard:1:term                 the last term given out
    steelyard:1:declarations         a hash: upstream -> declaration
    steelyard:1:state:<upstream>     generation and the laws' memories
    steelyard:1:history:<upstream>   a stream of moments, capped

Every write is a script of `redis_scripts` that first compares the lease with
the writer's own, so that a controller which was paused for minutes changes
nothing when it wakes. No answer is waited for longer than `TIMEOUT_S`, all of
connecting, TLS, the password and the command together.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import redis.asyncio as redis_client
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from steelyard_agent import wire

from steelyard_controller.declared import declaration as declarations
from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.state import lease as leases
from steelyard_controller.state import redis_scripts as scripts
from steelyard_controller.state import saved as states
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.saved import Newer, Saved
from steelyard_controller.state.store import SCHEMA, Declared, Lost, Rejected, Unavailable

log = logging.getLogger("steelyard.controller")

# Redis on the same network answers within milliseconds; a tick must not wait for one that does not.
TIMEOUT_S = 0.25

# The history of 10,000 servers is megabytes, and no tick waits for it.
HISTORY_TIMEOUT_S = 2.0

_PREFIX = f"steelyard:{SCHEMA}:"
_SCHEMA, _STORE, _LEASE, _TERM = "steelyard:schema", _PREFIX + "store", _PREFIX + "lease", _PREFIX + "term"
_DECLARATIONS = _PREFIX + "declarations"


class Redis:
    """Keeps states in Redis; raises ValueError for a URL that is none."""

    volatile = False

    def __init__(self, url: str, *, password: str | None = None) -> None:
        # Without a retry: whoever asks knows best whether to ask again.
        # A password in the URL is stronger than the one that is given beside it.
        self._client, self._patient = (
            redis_client.Redis.from_url(
                url,
                password=password,
                socket_connect_timeout=TIMEOUT_S,
                socket_timeout=timeout_s,
                decode_responses=False,
            )
            for timeout_s in (TIMEOUT_S, HISTORY_TIMEOUT_S)
        )
        script = self._client.register_script
        self._acquire, self._renew = script(scripts.ACQUIRE), script(scripts.RENEW)
        self._release, self._declare = script(scripts.RELEASE), script(scripts.DECLARE)
        self._keep = script(scripts.KEEP)

    async def open(self) -> None:
        """Check the schema."""
        found = await self._ask(lambda: self._client.get(_SCHEMA), _SCHEMA)
        if found is not None:
            _refuse_newer(found)

    async def leader(self) -> Lease | None:
        """Return who has the lease now."""
        text = await self._ask(lambda: self._client.get(_LEASE), _LEASE)
        return None if text is None else _lease(text)

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease | None:
        """Take the lease if it is free."""
        head = leases.encode(replace(draft, term=0)).removesuffix("0}")
        keys = [_SCHEMA, _STORE, _LEASE, _TERM]
        arguments: list[Any] = [
            SCHEMA, int(patient), secrets.token_hex(8), draft.term, above, head, round(lease_s * 1000)
        ]  # fmt: skip
        answer, *found = await self._ask(lambda: self._acquire(keys=keys, args=arguments), *keys)
        if answer == b"schema":
            _refuse_newer(found[0])
        if answer == b"empty":
            return None
        text, store = found
        return replace(_lease(text), store=store.decode(errors="replace"))

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        """Prolong the lease."""
        arguments: list[Any] = [leases.encode(lease), round(lease_s * 1000)]
        return bool(await self._ask(lambda: self._renew(keys=[_LEASE], args=arguments), _LEASE))

    async def release(self, lease: Lease) -> None:
        """Give the lease back."""
        await self._ask(lambda: self._release(keys=[_LEASE], args=[leases.encode(lease)]), _LEASE)

    async def declarations(self) -> Declared:
        """Return what is declared."""
        found = await self._ask(
            lambda: cast(Awaitable[dict[bytes, bytes]], self._client.hgetall(_DECLARATIONS)), _DECLARATIONS
        )
        known: dict[str, Declaration] = {}
        damaged = set()
        for field, value in found.items():
            name = field.decode(errors="replace")
            is_name = wire.NAME.fullmatch(name) is not None
            declared = declarations.decode(value) if is_name else "no upstream can have this name"
            if isinstance(declared, str):
                damaged.add(name)
                log.error(
                    "the declaration of %s in Redis (%s) cannot be read: %s; it is left out, and left there",
                    ascii(name), _DECLARATIONS, declared, extra={"event": "damaged", "upstream": name},
                )  # fmt: skip
            else:
                known[name] = declared
        return Declared(known=known, damaged=frozenset(damaged))

    async def declare(self, lease: Lease, changes: Mapping[str, Declaration | None]) -> None:
        """Keep declarations, or forget upstreams."""
        gone = [name for name, declaration in changes.items() if declaration is None]
        about = [key for name in gone for key in (_state_key(name), _history_key(name))]
        given: list[Any] = [leases.encode(lease)]
        for name, declaration in changes.items():
            given += [name, b"" if declaration is None else declarations.encode(declaration)]
        keys = [_LEASE, _DECLARATIONS, *about]
        _judge(await self._ask(lambda: self._declare(keys=keys, args=given), _DECLARATIONS))

    async def load(self, upstream: str) -> Saved | None:
        """Return the saved state."""
        key = _state_key(upstream)
        try:
            value = await self._ask(lambda: self._client.get(key), key)
        except Rejected as error:
            log.error("%s; the laws begin anew", error, extra={"event": "damaged", "upstream": upstream})
            return None
        saved = None if value is None else states.decode(value)
        if value is not None and saved is None:
            log.error(
                "%s in Redis cannot be read; the laws begin anew, and the next state takes its place", key,
                extra={"event": "damaged", "upstream": upstream},
            )  # fmt: skip
        return saved

    async def save(self, lease: Lease, upstream: str, saved: Saved) -> None:
        """Write the state; it does not expire."""
        await self._write(lease, upstream, _state_key(upstream), "SET", states.encode(saved))

    async def remember(self, lease: Lease, upstream: str, moment: bytes, *, keep: int) -> None:
        """Add a moment; the stream is capped roughly, which costs Redis least."""
        capped = ("MAXLEN", "~", keep, "*", "m", moment)
        await self._write(lease, upstream, _history_key(upstream), "XADD", *capped)

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the last moments."""
        key = _history_key(upstream)
        seconds_now, _ = await self._ask(lambda: self._client.time())
        since = str(max(0, round((seconds_now - seconds) * 1000)))
        entries = await self._ask(
            lambda: self._patient.xrevrange(key, min=since, count=most), key, within_s=HISTORY_TIMEOUT_S
        )
        return [fields[b"m"] for _, fields in reversed(entries) if b"m" in fields]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._patient.aclose()

    async def _write(self, lease: Lease, upstream: str, key: str, command: str, *arguments: object) -> None:
        given: list[Any] = [leases.encode(lease), upstream, command, *arguments]
        keys = [_LEASE, _DECLARATIONS, key]
        _judge(await self._ask(lambda: self._keep(keys=keys, args=given), key))

    async def _ask(self, ask: Callable[[], Awaitable[Any]], *keys: str, within_s: float = TIMEOUT_S) -> Any:  # noqa: ANN401
        try:
            async with asyncio.timeout(within_s):
                return await ask()
        except TimeoutError:
            raise Unavailable(f"Redis did not answer within {within_s:g} s") from None
        except AuthenticationError:
            # Redis's own words are about HELLO, which nobody typed.
            raise Unavailable(
                "Redis refuses the user and the password, or their lack, in --state-url"
            ) from None
        except ResponseError as error:
            raise _said(str(error), keys) from None
        except (RedisError, OSError) as error:
            raise Unavailable(str(error) or type(error).__name__) from None
        except (ValueError, LookupError) as error:
            # The client's own words for an answer that is none of Redis's.
            raise Unavailable(f"what answers is no Redis: {error}") from None


def _said(error: str, keys: Sequence[str]) -> Unavailable:
    if error.startswith("WRONGTYPE"):
        return Rejected(f"Redis holds something else in {' or '.join(keys)}, which is left there: delete it")
    return Rejected(f"{', '.join(keys)}: {error}")


def _judge(written: object) -> None:
    if not written:
        raise Lost("the lease is another controller's, or has run out")


def _refuse_newer(found: bytes) -> None:
    if not found.isdigit() or len(found) > 9 or int(found) > SCHEMA:
        raise Newer(
            f"Redis holds the schema {found[:40].decode(errors='replace')!r}, this program knows {SCHEMA}: "
            "run the newer controller, or name another database in --state-url"
        )


def _lease(text: bytes) -> Lease:
    lease = leases.decode(text)
    if lease is None:
        raise Rejected(f"{_LEASE} holds {text[:80]!r}, which is no lease: delete it")
    return lease


def _state_key(upstream: str) -> str:
    return f"{_PREFIX}state:{upstream}"


def _history_key(upstream: str) -> str:
    return f"{_PREFIX}history:{upstream}"
