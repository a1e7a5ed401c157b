"""The TCP listener for HAProxy's agent-check: one port for every peer of every upstream.

I/O around `agent_answer`. One line comes in, one goes out, and the connection is
closed. A connection costs no thread and lives at most `DEADLINE_S`. So a client
that is silent, slow or does not read blocks nothing. There are at most
`most_connections` of them. Some questions have no answer: a malformed line, an
unknown peer, or a controller that does not lead. They get a line that changes
nothing in HAProxy, which keeps its weights.
"""

import asyncio
import logging
import random
from collections.abc import Mapping

from steelyard_protocol.haproxy_weights import haproxy_weights

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.haproxy import agent_answer
from steelyard_controller.haproxy.agent_answer import Row
from steelyard_controller.haproxy.held_weights import HeldWeights
from steelyard_controller.log_once import LogOnce
from steelyard_controller.service import Service
from steelyard_controller.tick.outcome import Outcome

log = logging.getLogger("steelyard.controller")

# HAProxy's own timeout is its agent-inter, 2 s by default.
DEADLINE_S = 2.0

# Two names of 64 characters, a slash and a weight take 133.
LONGEST_LINE = 256

# HAProxy asks for about 1000 servers in 2 s, and a question takes a millisecond, so this is ample.
MOST_CONNECTIONS = 1000


class AgentCheck:
    """The listener; `start` and `stop` it within one event loop."""

    def __init__(
        self,
        controller: Service,
        *,
        deadline_s: float = DEADLINE_S,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._controller = controller
        self._deadline_s = deadline_s
        self._most_connections = most_connections
        self.open: set[asyncio.WriteTransport] = set()
        self._server: asyncio.Server | None = None
        self._rows: dict[str, tuple[Outcome, Mapping[str, Row]]] = {}
        self._held: dict[str, HeldWeights] = {}
        self._log_once = LogOnce()

    async def start(self, host: str, port: int) -> None:
        """Listen; raise OSError if that is not possible."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=LONGEST_LINE, backlog=1024)

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is None:
            return
        self._server.close()
        for transport in tuple(self.open):
            transport.abort()
        await self._server.wait_closed()
        self._server = None

    def answer(self, line: bytes) -> bytes:
        """Return the answer to one line from HAProxy."""
        question = agent_answer.question(line)
        if question is None:
            shown = line[:80].decode("ascii", "backslashreplace")
            return self._complain(
                "not-a-question", "question",
                f'{shown!r} is not a question: write agent-send "UPSTREAM/PEER\\n", '
                'or "UPSTREAM/PEER WEIGHT\\n" if the server\'s weight is not 100',
            )  # fmt: skip
        if self._controller.role != "leader":
            self._rows.clear()
            self._held.clear()
            return agent_answer.line("", "this controller does not lead; ask the leader")
        view = self._controller.views.get(question.upstream)
        if view is None:
            self._rows.pop(question.upstream, None)
            self._held.pop(question.upstream, None)
            return self._complain(
                "unknown-upstream", f"upstream {question.upstream}",
                f"there is no upstream {question.upstream}: declare it, or correct agent-send",
            )  # fmt: skip
        if view.outcome is None:
            return agent_answer.line("", "there is no decision yet")
        row = self._rows_of(question.upstream, view.outcome, view.declaration).get(question.peer)
        if row is None:
            return self._complain(
                "unknown-server", f"server {question.upstream}/{question.peer}",
                f"the weight table of {question.upstream} has no {question.peer}: declare it, correct "
                "agent-send, or check that its name resolves",
            )  # fmt: skip
        return agent_answer.answer(row, question.configured)

    def _log(self, kind: str, why: str) -> None:
        """Log a complaint the first time that its kind occurs."""
        if self._log_once.is_first(kind):
            log.warning("agent-check: %s", why, extra={"event": "agent_check"})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self.open) >= self._most_connections:
            self._log(
                "too-many",
                f"{self._most_connections} connections are open; more are closed at once: "
                "which other clients use this port?",
            )
            writer.transport.abort()
            return
        self.open.add(writer.transport)
        try:
            # The deadline includes the answer, because the other side may not read.
            async with asyncio.timeout(self._deadline_s):
                line = await _line(reader)
                if line is not None:
                    writer.write(self.answer(line))
                writer.close()
                await writer.wait_closed()
        except TimeoutError:
            if not writer.is_closing():
                self._log(
                    "silent",
                    f'no whole line within {self._deadline_s:g} s: does agent-send end with "\\n"?',
                )
        except (OSError, asyncio.CancelledError):
            pass  # The client is gone, or the process ends, which asyncio would log as a connection's error.
        finally:
            writer.transport.abort()
            self.open.discard(writer.transport)

    def _complain(self, word: str, kind: str, why: str) -> bytes:
        self._log(kind, why)
        return agent_answer.line(word, why)

    def _rows_of(self, upstream: str, outcome: Outcome, declaration: Declaration) -> Mapping[str, Row]:
        known = self._rows.get(upstream)
        if known is None or known[0] is not outcome:
            held = self._held.setdefault(upstream, HeldWeights(random.random))
            weights = held.next(haproxy_weights(outcome.table), outcome.now_s)
            known = self._rows[upstream] = (outcome, agent_answer.rows(outcome, declaration, weights))
        return known[1]


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the text before a newline or the end, or more than the longest line; None: no text."""
    try:
        return (await reader.readuntil()).removesuffix(b"\n")
    except asyncio.IncompleteReadError as ended:
        return ended.partial or None
    except asyncio.LimitOverrunError:
        return await reader.read(LONGEST_LINE)
