"""Resolves the host names in peers' addresses, in the background of the ticks. I/O only.

The system's resolver may take half a minute and has no timeout. So it runs in
threads that nothing waits for, and a late answer is used when it comes.
`resolved_names` (pure) decides what follows from the answers.
"""

import asyncio
import logging
import math
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future

from steelyard_protocol import peer_address

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.dns import resolved_names
from steelyard_controller.dns.resolved_names import Addresses, Resolution

log = logging.getLogger("steelyard.controller")

Lookup = Callable[[str], Awaitable[Sequence[str]]]

# Threads that a hanging resolver can hold; at 2 ms an answer, they resolve 8000 names a second.
MOST_AT_ONCE = 16

# A name that is no longer declared is forgotten after this many times `again_s`.
FORGET_AFTER = 10


async def ask_system(name: str) -> Sequence[str]:
    """Return all addresses of a name from the system's resolver; raise OSError or UnicodeError."""
    answer: Future[Sequence[str]] = Future()
    answer.set_running_or_notify_cancel()  # A caller that gives up must not cancel the look-up.

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answer.set_exception(error)
        else:
            answer.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))

    # A daemon: an executor's thread would hold up the end of the process until the resolver answers.
    threading.Thread(target=ask, name="resolve", daemon=True).start()
    return await asyncio.wrap_future(answer)


class Resolver:
    """The host names of all upstreams. `addresses` may be called from any thread.

    A name is resolved again after `again_s`. No answer within `timeout_s` is a fault.
    """

    def __init__(self, lookup: Lookup = ask_system, *, again_s: float = 30.0, timeout_s: float = 2.0) -> None:
        self._lookup = lookup
        self._again_s = again_s
        self._timeout_s = timeout_s
        self._known: dict[str, Resolution] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    def addresses(self, peers: Sequence[Peer]) -> Addresses:
        """Return the addresses of an upstream's peers and their faults, without waiting."""
        return resolved_names.look_up(self._known, peers)

    def unanswered(self, peers: Sequence[Peer]) -> list[Peer]:
        """Return the peers whose names have no answer yet, good or bad."""
        unknown = {name for name in resolved_names.names(peers) if name not in self._known}
        return (
            [peer for peer in peers if peer_address.parsed(peer.address).host in unknown] if unknown else []
        )

    def remember(self, ips: Mapping[str, str]) -> None:
        """Take over the addresses of names from elsewhere, until each has an answer of its own."""
        for name, ip in ips.items():
            if name not in self._known:
                self._known[name] = Resolution(ip=ip, asked_at_s=-math.inf)

    async def refresh(self, now_s: float, peers: Sequence[Peer]) -> None:
        """Resolve the due names, all at once; return when all have an answer, or after `timeout_s`.

        `peers` are those of all upstreams. Later answers are used when they come. Never raises.
        """
        wanted = resolved_names.names(peers)
        self._forget(set(wanted), now_s)
        for name in wanted:
            due = resolved_names.is_due(self._known.get(name), now_s=now_s, again_s=self._again_s)
            if due and name not in self._asking:
                self._asking[name] = asyncio.create_task(self._ask(name, now_s))
        pending = [self._asking[name] for name in wanted if name in self._asking]
        if pending:
            await asyncio.wait(pending, timeout=self._timeout_s)

    async def close(self) -> None:
        """Cancel look-ups that are still running."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, name: str, now_s: float) -> None:
        # The slot is held until the answer comes, however late: hanging look-ups count.
        try:
            async with self._slots:
                answer = asyncio.ensure_future(self._lookup(name))
                try:
                    done, _ = await asyncio.wait([answer], timeout=self._timeout_s)
                    if not done:
                        why = f"no answer within {self._timeout_s:g} s"
                        self._take(name, resolved_names.failed, why, now_s)
                    self._take(name, resolved_names.answered, await answer, now_s)
                except (OSError, UnicodeError) as error:  # UnicodeError: the text is not a host name.
                    self._take(name, resolved_names.failed, _reason(error), now_s)
                finally:
                    answer.cancel()
        finally:
            del self._asking[name]

    def _take(self, name: str, by: Callable[..., Resolution], answer: Sequence[str], now_s: float) -> None:
        before = self._known.get(name)
        now = self._known[name] = by(before, answer, asked_at_s=now_s)
        # Faults are logged with the upstreams that have them.
        if now.fault is None and before is not None and before.ip not in {None, now.ip}:
            log.info("name %s is now %s, previously %s", name, now.ip, before.ip)

    def _forget(self, wanted: set[str], now_s: float) -> None:
        old = now_s - FORGET_AFTER * self._again_s
        for name in [name for name, known in self._known.items() if known.asked_at_s < old]:
            if name not in wanted:
                del self._known[name]


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
