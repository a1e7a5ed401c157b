"""A small server in a thread of its own, whose every connection is open until its test ends it."""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod

from conftest import PATIENCE_S, free_port


class AnsweringServer(ABC):
    """Made, it listens on `port`; `answer` is a test's own, and says whether the connection goes on."""

    def __init__(self) -> None:
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    @abstractmethod
    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: int) -> bool:
        """Answer one request on a connection that has had so many answers."""

    def stop(self) -> None:
        """End it, whatever is under way."""
        self._loop.call_soon_threadsafe(self.over.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        self.over = asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._ready.set()
        await self.over.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            answers = 0
            while await self.answer(reader, writer, answers):
                answers += 1
        self._open.discard(task)
        writer.close()
