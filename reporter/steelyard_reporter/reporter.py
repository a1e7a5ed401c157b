"""One tick: read HAProxy, report its traffic; and a little later, take over the table and set its weights.

I/O comes in as arguments: the sockets, Memcached, the clocks. `loop` decides when.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from steelyard_protocol import announced, balancer_runs, signature, traffic_report, wire
from steelyard_protocol.deadline import Deadline
from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import WeightTable

from steelyard_reporter.haproxy import runtime_socket, weight_commands
from steelyard_reporter.haproxy.runtime_socket import RuntimeSocket
from steelyard_reporter.haproxy.show_stat import HaproxyFault, Process, Servers
from steelyard_reporter.haproxy.windows import Figures, Window, Windows
from steelyard_reporter.newest_tables import Tables
from steelyard_reporter.settings import Settings

log = logging.getLogger("steelyard_reporter")

# HAProxy's sockets answer within this share of an interval, or there is no report.
READ_PART = 0.5

# A line of commands must fit HAProxy's buffer of 16 kB.
COMMANDS_AT_ONCE = 50

# Weights near HAProxy's own wait for this long, as they do for Envoy.
NEAR_ENOUGH_S = 10.0

# Reports until an unread one is a fault: by then a controller has read one, if it can.
UNREAD_REPORTS = 5


class FaultLog:
    """The known faults, by topic: a line when one begins or changes, and a line when it is over."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def log_changes(self, topic: str, faults: Mapping[str, str]) -> None:
        """Log the new faults of a topic, and those that are over: the ones that `faults` no longer names."""
        before = {key for key in self._known if key.startswith(f"{topic}:")}
        for name, text in faults.items():
            key = f"{topic}:{name}"
            before.discard(key)
            if self._known.get(key) != text:
                self._known[key] = text
                log.warning("%s", text)
        for key in before:
            log.info("no longer: %s", self._known.pop(key))


class Reporter:
    """The reporter of one HAProxy; `boot` distinguishes its runs, and `key` signs its reports."""

    def __init__(
        self,
        settings: Settings,
        *,
        pool: MemcachedWriter,
        tables: Tables,
        key: bytes | None,
        boot: str,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._tables = tables
        self._key = key
        self._boot = boot
        self._clock = clock
        self._wall_clock = wall_clock
        self._deadline = Deadline(clock)
        self._sockets = [RuntimeSocket(address, self._deadline) for address in settings.sockets]
        self._windows = Windows(settings.interval_s)
        self._faults = FaultLog()
        self._processes: list[Process] = []
        self._seq = 0
        self._unread: dict[str, int] = {}
        self._named: dict[str, set[str]] = {upstream: set() for upstream in settings.upstreams}
        self._added: dict[tuple[str, int, str], set[str]] = {}
        self._exact_at_s: dict[tuple[str, int, str], float] = {}
        self._batches = 0

    def report(self) -> list[TrafficReport]:
        """Read HAProxy and send a report for each upstream; return the reports."""
        at_s, at_ms = self._clock(), int(1000 * self._wall_clock())
        self._processes = []
        try:
            self._processes = self._read()
        except HaproxyFault as fault:
            self._faults.log_changes("socket", {"": f"no traffic reports: {fault}"})
            return []
        self._faults.log_changes("socket", {})
        self._tell_mismatches()
        window = self._windows.next(self._processes, at_s)
        if window is None:
            return []
        if window.broken is not None:
            log.info("%s: traffic since the last report is not reported", window.broken)
            return []
        self._seq += 1
        made = [self._made(table, window, at_ms) for table in self._tables.newest.values()]
        reports = [report for report in made if report.ids]
        values: dict[str, bytes] = {}
        for report in reports:
            text = traffic_report.encode(report)
            value = text if self._key is None else signature.sign(self._key, text)
            values[wire.traffic_key(report.upstream, report.lb)] = value
            log.debug("%s", text.decode())
        self._pool.put_many(values)
        runs = balancer_runs.lines(map(balancer_runs.run_of, reports))
        if runs:
            self._pool.append(wire.RUNS_KEY, runs, ttl_s=balancer_runs.TTL_S)
        self._announce([report.upstream for report in reports])
        return reports

    def follow(self) -> None:
        """Take over the newest tables; with --set-weights, make HAProxy follow them."""
        self._faults.log_changes("tables", self._tables.fetch())
        if not self._settings.set_weights:
            return
        self._remember()
        faults: dict[str, str] = {}
        self._deadline.start(READ_PART * self._settings.interval_s)
        for process in self._processes:
            if process.ending:
                continue
            for upstream, table in self._tables.newest.items():
                backend = self._settings.upstreams[upstream]
                servers = process.servers[backend]
                if servers is None:
                    continue
                try:
                    wrong = self._set_weights(process, table, backend, servers)
                except HaproxyFault as fault:
                    wrong = str(fault)
                if wrong is not None:
                    faults[f"{process.via}/{backend}"] = (
                        f"{process.via}, backend {backend}: nothing is set: {wrong}"
                    )
        self._faults.log_changes("weights", faults)

    def _announce(self, reported: Sequence[str]) -> None:
        """Announce this load balancer to the controller for upstreams whose table does not name it."""
        lb, unread, faults = self._settings.lb, dict[str, int](), dict[str, str]()
        for upstream in reported:
            if lb not in self._tables.newest[upstream].reporters:
                unread[upstream] = self._unread.get(upstream, 0) + 1
            elif upstream in self._unread:
                log.info("%s: the controller reads the reports of %s", upstream, lb)
            if unread.get(upstream, 0) > UNREAD_REPORTS:
                faults[upstream] = (
                    f"{upstream}: the controller does not read the reports of {lb}: see `steelyard status "
                    f"{upstream}`; if the clocks differ, declare it in load_balancers"
                )
        self._unread = unread
        self._faults.log_changes("unread", faults)
        if unread:
            lines = announced.lines([*unread][: announced.AT_ONCE], lb)
            self._pool.append(wire.ANNOUNCED_KEY, lines, ttl_s=announced.TTL_S)

    def _remember(self) -> None:
        """Remember the servers that tables name; forget removed ones, and ended processes."""
        for upstream, table in self._tables.newest.items():
            declared, backend = {peer.id for peer in table.peers}, self._settings.upstreams[upstream]
            self._named[upstream] |= declared
            if self._processes:
                there = (process.servers[backend] or () for process in self._processes)
                self._named[upstream] &= declared.union(*there)
        if not self._processes:
            return
        running = {(process.via, process.pid) for process in self._processes}
        self._added = {place: names for place, names in self._added.items() if place[:2] in running}
        self._exact_at_s = {place: at_s for place, at_s in self._exact_at_s.items() if place[:2] in running}

    def _read(self) -> list[Process]:
        self._deadline.start(READ_PART * self._settings.interval_s)
        backends = list(dict.fromkeys(self._settings.upstreams.values()))
        return [process for each in self._sockets for process in each.read(backends)]

    def _tell_mismatches(self) -> None:
        faults: dict[str, str] = {}
        for table in self._tables.newest.values():
            backend = self._settings.upstreams[table.upstream]
            for process in self._processes:
                if not process.ending:
                    texts = weight_commands.mismatches(
                        table,
                        backend,
                        process.servers[backend],
                        sets=self._settings.set_weights,
                        adds=self._settings.add_servers is not None,
                    )
                    faults |= {f"{table.upstream}/{kind}": text for kind, text in texts.items()}
        self._faults.log_changes("names", faults)

    def _made(self, table: WeightTable, window: Window, at_ms: int) -> TrafficReport:
        seen: Mapping[str, Figures] = window.figures.get(self._settings.upstreams[table.upstream], {})
        ids = [peer.id for peer in table.peers if peer.id in seen]
        rows = [seen[name] for name in ids]
        return TrafficReport(
            upstream=table.upstream,
            lb=self._settings.lb,
            boot=self._boot,
            seq=self._seq,
            interval_s=round(max(0.001, window.interval_s), 3),
            ids=ids,
            completed=[row.completed for row in rows],
            failed=[row.failed for row in rows],
            in_flight=[row.in_flight for row in rows],
            latency_ms=[None if row.latency_ms is None else round(row.latency_ms, 3) for row in rows],
            latency_p50_ms=[None] * len(rows),
            sent_at_ms=at_ms,
        )

    def _set_weights(
        self, process: Process, table: WeightTable, backend: str, servers: Servers
    ) -> str | None:
        place = process.via, process.pid, table.upstream
        # Without those that could not be added, but with those that HAProxy would not delete yet.
        added = self._added.get(place, set()) & servers.keys()
        holds_small = self._clock() - self._exact_at_s.get(place, float("-inf")) < NEAR_ENOUGH_S
        planned = weight_commands.plan(
            table,
            backend,
            servers,
            keywords=self._settings.add_servers,
            named_before=self._named[table.upstream],
            added_before=added,
            holds_small=holds_small,
            turn=self._batches,
        )
        if not holds_small:
            self._exact_at_s[place] = self._clock()
        self._batches += bool(planned.commands)
        self._added[place] = added | planned.added
        wrong: list[str] = []
        through = next(each for each in self._sockets if each.name == process.via)
        for part in _parts(planned.commands):
            answer = through.ask(runtime_socket.line(part, process.prefix))
            wrong.append(weight_commands.complaint(answer) or "")
        return next((each for each in wrong if each), None)


def _parts(commands: Sequence[str]) -> list[Sequence[str]]:
    return [commands[first : first + COMMANDS_AT_ONCE] for first in range(0, len(commands), COMMANDS_AT_ONCE)]
