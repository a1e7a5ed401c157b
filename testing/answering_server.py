"""A small server in its own thread, with connections that stay open until the test ends it."""

import asyncio
import threading
from abc import ABC, abstractmethod

from testing.daemons import free_port
from testing.waiting import PATIENCE_S


class AnsweringServer(ABC):
    """Listens on `port` once made; the test's own `answer` returns whether the connection goes on."""

    def __init__(self, host: str = "127.0.0.1", port: int | None = None) -> None:
        self._host, self.port = host, port or free_port()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    @abstractmethod
    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: int) -> bool:
        """Answer one request, given the number of earlier answers on the connection."""

    def stop(self) -> None:
        """End the server, with all running requests."""
        self._loop.call_soon_threadsafe(self.over.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        server = await asyncio.start_server(self._accept, self._host, self.port)
        self._ready.set()
        await self.over.wait()
        # Closed between accepting a connection and its first step, asyncio loses the socket. So accept no
        # more, and let the accepted ones begin.
        for listening in server.sockets:
            self._loop.remove_reader(listening)
        await asyncio.sleep(0)
        server.close()
        # The answer to the last connection may begin while the others end.
        while under_way := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in under_way:
                task.cancel()
            await asyncio.wait(under_way)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers = 0
            while await self.answer(reader, writer, answers):
                answers += 1
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
