"""A constant rate of requests over a few kept connections, with the result of each."""

import http.client
import threading
import time
from collections import Counter

from testing.waiting import PATIENCE_S

TIMEOUT_S = 15


class Visitors:
    """Requests at a constant rate until stopped, with the answering servers and the failures."""

    def __init__(self, port: int, *, requests_per_s: float, connections: int) -> None:
        self._port, self._rate, self._every_s = port, requests_per_s, connections / requests_per_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._served: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._drive, args=(n,)) for n in range(connections)]
        self.failures: list[str] = []

    def __enter__(self) -> "Visitors":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def served(self) -> Counter[str]:
        """Return the number of answers from each server so far."""
        with self._lock:
            return Counter(self._served)

    def next(self, requests: int) -> Counter[str]:
        """Wait for `requests` more answers; return their servers."""
        before = self.served()
        deadline = time.monotonic() + 10 * requests / self._rate + PATIENCE_S
        while sum((during := self.served() - before).values()) < requests:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"only {sum(during.values())} of {requests} answers; {self.failures[:3]}"
                )
            self._stop.wait(0.05)
        return during

    def share(self, server: str, requests: int = 300) -> float:
        """Return a server's share of the next `requests`."""
        during = self.next(requests)
        return during[server] / sum(during.values())

    def _drive(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        next_s = time.monotonic() + number / self._rate
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + self._every_s, time.monotonic() - 1)
            sent_s = time.monotonic()
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._fail(f"{error!r} after {time.monotonic() - sent_s:.2f} s")
                continue
            if answer.status == 200:
                with self._lock:
                    self._served[answer.getheader("X-Served-By", "nobody")] += 1
            else:
                self._fail(f"{answer.status} {body[:300].decode(errors='replace')}")
        connection.close()

    def _fail(self, what: str) -> None:
        with self._lock:
            self.failures.append(what)
