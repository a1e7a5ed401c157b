"""The faults of the upstreams; those of one cause at many upstreams are told once. I/O: the log.

Such a fault becomes one line among the controller's faults, and one in the log. The upstreams keep their own.
Equal faults of many parts of one upstream, such as its host names, are one line of that upstream.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from steelyard_protocol import weight_table
from steelyard_protocol.memcached_client import Unavailable

from steelyard_controller.fault_causes import MANY, MOST_LOGGED, Fault, of_many, told_once
from steelyard_controller.faults import Faults
from steelyard_controller.messages.inbox import RefusalChange
from steelyard_controller.tick import upstream_faults
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.cycle_state import NO_FAULTS
from steelyard_controller.tick.outcome import Outcome

log = logging.getLogger("steelyard.controller")

Cause = tuple[str, str, str]
"""Part, kind and text, which are the same wherever the fault has one cause; the part is empty with a kind."""


PUBLISHING_FAILURES = Unavailable | weight_table.TableTooLarge
"""The world's failures to publish; another error is a bug."""


def is_bug(error: Exception | None) -> bool:
    """Return whether an upstream's tick ended by a bug, and not by a failure of the world."""
    return error is not None and not isinstance(error, PUBLISHING_FAILURES)


class UpstreamFaults:
    """The faults by upstream; `controller` shows those that many upstreams share."""

    def __init__(self, controller: Faults) -> None:
        self._controller = controller
        self._by_upstream: dict[str, Faults] = {}
        self._changes: dict[tuple[Cause, bool], list[tuple[str, str, Fault]]] = {}
        self._bugs: set[str] = set()
        self._events: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._shared: Mapping[Cause, Collection[str]] = {}

    def of(self, upstream: str) -> Faults:
        """Return the faults of one upstream, whose changes `settle` logs."""
        faults = self._by_upstream.get(upstream)
        if faults is None:
            faults = self._by_upstream[upstream] = Faults(partial(self._change, upstream))
        return faults

    def forget(self, upstream: str) -> None:
        """Drop an upstream."""
        self._by_upstream.pop(upstream, None)

    def note_messages(self, cycle: Cycle, outcome: Outcome, refusals: Sequence[RefusalChange]) -> None:
        """Note an upstream's refusals and new load balancers, and the faults of its messages."""
        for change in refusals:
            self._events.setdefault(("refused", change.alike), []).append((cycle.name, str(change)))
        for line in cycle.balancer_changes:
            self._events.setdefault(("load balancer", line), []).append((cycle.name, line))
        faults, found, terms = self.of(cycle.name), cycle.faults, upstream_faults.terms(outcome)
        if faults.now or terms or found is not NO_FAULTS:  # Most of thousands of upstreams have no fault.
            for part, fault in (*found.items(), ("terms", terms)):
                faults.note(part, fault)

    def note_tick(self, cycle: Cycle, error: Exception | None) -> None:
        """Note that an upstream has its table (None), or why not: a failure to publish it, or a bug."""
        faults = self.of(cycle.name)
        if error is None or not is_bug(error):
            if error is not None or faults.now:
                faults.note("publishing", None if error is None else str(error))
                faults.note("tick", None)
            return
        # The upstream keeps its last table, and the others have theirs.
        cycle.failures += 1
        text = f"it fails ({type(error).__name__}: {error}); the last table holds, see the log"
        if "tick" not in faults.now and text not in self._bugs:
            self._bugs.add(text)
            log.error("%s: a tick failed", cycle.name, exc_info=error, extra={"upstream": cycle.name})
        faults.note("tick", text)

    def own(self, upstream: str) -> tuple[str, ...]:
        """Return a line for each fault that is this upstream's own."""
        faults = self._by_upstream.get(upstream)
        if faults is None or not faults.now:
            return ()  # The usual case, for thousands of upstreams at every tick.
        now, shared = faults.now, self._shared
        told = told_once({part: now[part] for part in now if _cause(part, now[part]) not in shared})
        return tuple(f"{part}: {fault}" for part, fault in told.items())

    def settle(self) -> None:
        """Log the changes since the last call, and find the faults that many upstreams share."""
        for (event, _), lines in self._events.items():
            _log_event(event, lines)
        for (cause, begins), changed in self._changes.items():
            _log_change(cause, begins, changed)
        self._events, self._changes, self._bugs = {}, {}, set()
        places: dict[Cause, dict[str, None]] = {}
        upstreams: dict[Cause, set[str]] = {}
        for upstream, faults in self._by_upstream.items():
            for part, fault in faults.now.items():
                cause = _cause(part, fault)
                places.setdefault(cause, {}).setdefault(part if fault.kind else upstream)
                upstreams.setdefault(cause, set()).add(upstream)
        self._shared = {
            cause: names
            for cause, names in places.items()
            if len(names) >= MANY and len(upstreams[cause]) > 1
        }
        self._controller.shared = tuple(_line(cause, names) for cause, names in self._shared.items())

    def stop(self) -> None:
        """Show no shared faults: another controller leads, and shows its own."""
        self._shared, self._controller.shared = {}, ()

    def _change(self, upstream: str, part: str, fault: Fault, begins: bool) -> None:
        self._changes.setdefault((_cause(part, fault), begins), []).append((upstream, part, fault))


def _cause(part: str, fault: Fault) -> Cause:
    return ("" if fault.kind else part, fault.kind, fault.text)


def _line(cause: Cause, names: Collection[str]) -> str:
    part, kind, text = cause
    return f"{part or kind}: {of_many(text, names, kind or 'upstreams')}"


def _log_change(cause: Cause, begins: bool, places: Sequence[tuple[str, str, Fault]]) -> None:
    """Log that a fault begins or has ended: in one line for many places, else in one for each."""
    level, event = (logging.WARNING, "fault") if begins else (logging.INFO, "mended")
    names = dict.fromkeys(part if fault.kind else upstream for upstream, part, fault in places)
    if len(names) >= MANY:
        part, kind, text = cause
        label = part or kind
        fault = of_many(text, names, kind or "upstreams", most=MOST_LOGGED)
        line = f"{label}: {fault}; the loop goes on" if begins else f"{label}: mended ({fault.at})"
        about = {"event": event, "part": label}
        own, *others = dict.fromkeys(upstream for upstream, _, _ in places)
        if not others:
            line, about = f"{own}: {line}", {**about, "upstream": own}
        log.log(level, "%s", line, extra=about)
        return
    for upstream, part, fault in places:
        text = f"{part}: {fault}; the loop goes on" if begins else f"{part} works again"
        about = {"event": event, "upstream": upstream, "part": part}
        log.log(level, "%s: %s", upstream, text, extra=about)


def _log_event(event: str, lines: Sequence[tuple[str, str]]) -> None:
    """Log events of one cause: the first one and the number of all if they are many, else each."""
    level = logging.WARNING if event == "refused" else logging.INFO
    for upstream, line in lines[: 1 if len(lines) >= MANY else None]:
        more = f"; {len(lines) - 1:,} more like this" if len(lines) >= MANY else ""
        log.log(level, "%s: %s%s", upstream, line, more, extra={"event": event, "upstream": upstream})
