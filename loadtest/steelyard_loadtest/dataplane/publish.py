"""The controller's part: a weight table in Memcached, its generation rising every second."""

import threading
import time
from types import TracebackType

from pymemcache.client.base import Client
from steelyard_controller.pipeline import weight_table

from steelyard_loadtest.dataplane.peers import UPSTREAM, Peer, table

KEY = f"steelyard:1:weights:{UPSTREAM}"
TICK_S = 1.0


class Publisher:
    """Publishes until it is left; `change` brings other weights at once."""

    def __init__(self, port: int, servers: tuple[Peer, ...], picker: str) -> None:
        self._client = Client(("127.0.0.1", port), connect_timeout=5, timeout=5)
        self._servers, self._picker = servers, picker
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self.generation = 0

    def __enter__(self) -> "Publisher":
        self._publish()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def change(self, servers: tuple[Peer, ...]) -> int:
        """Publish other weights now; return their generation."""
        with self._lock:
            self._servers = servers
        return self._publish()

    def _publish(self) -> int:
        with self._lock:
            self.generation += 1
            now_ms = int(time.time() * 1000)
            document = table(
                self._servers, picker=self._picker, generation=self.generation, issued_at_ms=now_ms
            )
            self._client.set(KEY, weight_table.encode(document), noreply=False)
            return self.generation

    def _tick(self) -> None:
        while not self._stopped.wait(TICK_S):
            self._publish()
