"""Reads the indicators' sources, each in its own thread, and keeps their last values. I/O only.

No sample waits for a source: it takes the last value. A source may be late, send
nonsense or hang: its indicators are then null. So is a value older
than STALE_INTERVALS of its intervals. Both are logged when they begin and when they end.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from steelyard_agent.evidence import Evidence
from steelyard_agent.indicators import measure
from steelyard_agent.indicators.declared import Indicator, Source
from steelyard_agent.indicators.measure import Reading
from steelyard_agent.indicators.text_formats import SourceError
from steelyard_agent.log_text import one_line

log = logging.getLogger(__name__)

# The oldest value in intervals: as long as a sample lives in Memcached.
STALE_INTERVALS = 3.0

# In intervals, from the end of a long reading to the next one: a rate over less would be noise.
SHORTEST_PAUSE_INTERVALS = 0.5

SHORTEST_TIMEOUT_S = 2.0
LONGEST_TIMEOUT_S = 10.0

Fetch = Callable[[Source, float, threading.Event], str]
"""Returns a source's text within a timeout, or raises SourceError: `fetch.fetch`."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest evidence of an indicator and its time; `failed` is the reason if it has no value."""

    at_s: float
    evidence: Evidence
    failed: str | None = None


class IndicatorReader:
    """The application's own indicators and rates; `clock` is monotonic."""

    def __init__(self, indicators: Sequence[Indicator], fetch: Fetch, clock: Callable[[], float]) -> None:
        self._indicators = tuple(indicators)
        self._fetch = fetch
        self._clock = clock
        self._stop = threading.Event()
        self._before: dict[str, Reading] = {}
        self._failing: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._newest = {
            one.name: _Newest(clock(), measure.failed(one, "it was not read yet")) for one in self._indicators
        }

    def start(self) -> None:
        """Read each source from now on, at its own interval."""
        for source in self._sources():
            thread = threading.Thread(target=self._keep_reading, args=[source], name="indicator", daemon=True)
            thread.start()
            self._threads.append(thread)

    def read_all(self) -> None:
        """Read each source once, all at the same time, and return when they are read."""
        sources = self._sources()
        if sources:
            with ThreadPoolExecutor(len(sources)) as pool:
                list(pool.map(self._read, sources))

    def evidence(self) -> tuple[Evidence, ...]:
        """Return the newest evidence of each indicator, in their order; never waits."""
        return tuple(self._now(one) for one in self._indicators if one.limit is not None)

    def rates(self) -> tuple[Evidence, ...]:
        """Return the newest evidence of each rate; never waits."""
        return tuple(self._now(one) for one in self._indicators if one.limit is None)

    def close(self) -> None:
        """Stop reading; a running command is killed, and other sources are not waited for."""
        self._stop.set()
        for thread in self._threads:
            thread.join(0.5 / len(self._threads))

    def _sources(self) -> list[Source]:
        return list(dict.fromkeys(one.source for one in self._indicators))

    def _keep_reading(self, source: Source) -> None:
        due_s = self._clock()
        while not self._stop.wait(max(0.0, due_s - self._clock())):
            self._read(source)
            due_s = max(due_s + source.every_s, self._clock() + SHORTEST_PAUSE_INTERVALS * source.every_s)

    def _read(self, source: Source) -> None:
        timeout_s = min(max(source.every_s, SHORTEST_TIMEOUT_S), LONGEST_TIMEOUT_S)
        concerned = [one for one in self._indicators if one.source == source]
        try:
            text = self._fetch(source, timeout_s, self._stop)
        except Exception as error:  # the thread must outlive a mistake of ours, too
            for one in concerned:
                self._lost(one, _why(error))
            return
        now_s = self._clock()
        for one in concerned:
            try:
                reading = measure.reading(one, text, now_s)
                evidence = measure.measured(one, self._before.get(one.name), reading)
            except Exception as error:
                self._lost(one, _why(error))
            else:
                self._before[one.name] = reading
                self._newest[one.name] = _Newest(now_s, evidence)

    def _lost(self, indicator: Indicator, why: str) -> None:
        # A rate starts again: over the gap it would not be the present one.
        self._before.pop(indicator.name, None)
        self._newest[indicator.name] = _Newest(self._clock(), measure.failed(indicator, why), why)

    def _now(self, indicator: Indicator) -> Evidence:
        newest = self._newest[indicator.name]
        evidence, failed = newest.evidence, newest.failed
        age_s, allowed_s = self._clock() - newest.at_s, STALE_INTERVALS * indicator.source.every_s
        if failed is None and age_s > allowed_s:
            failed = f"it has not been read for {age_s:.3g} s"
            evidence = measure.failed(indicator, failed)
        if (failed is not None) != (indicator.name in self._failing):
            what = f"the {'rate' if indicator.limit is None else 'indicator'} {indicator.name}"
            if failed is not None:
                self._failing.add(indicator.name)
                log.warning(
                    "%s cannot be read: %s: %s; it is null until then", what, indicator.source, failed
                )
            else:
                self._failing.discard(indicator.name)
                log.info("%s can be read again", what)
        return evidence


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, SourceError) else one_line(f"{type(error).__name__}: {error}")
