"""The loop on invented readings: its samples, their times, and the log."""

import logging
from collections.abc import Iterator, Mapping, Sequence

import pytest
from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.sample import NOTHING
from steelyard_agent.scopes.host import HostReading
from steelyard_agent.scopes.process import ProcessCounters, ProcessReading
from steelyard_agent.scopes.reading import Absent, Reading
from steelyard_protocol import sample_reader, sample_record, signature
from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.sample_record import SampleRecord

GONE = Absent("process 7 is not running")


def host(at_s: float, busy_s: float) -> HostReading:
    return HostReading(at_s=at_s, cores=2, cpu_busy_s=busy_s, memory=None, nics=None, disks=None)


def app(at_s: float, cpu_s: float, started_s: float = 5.0, pid: int = 7) -> ProcessReading:
    counters = ProcessCounters(
        parent_pid=1, started_s=started_s, cpu_s=cpu_s, reaped_cpu_s=0.0, rss_bytes=10, io_calls=None
    )
    return ProcessReading(
        at_s=at_s,
        uptime_s=at_s,
        root_pid=pid,
        name="app",
        processes={pid: counters},
        cores=1,
        machine_cores=4,
        memory_total_bytes=100,
    )


class Shelf(MemcachedWriter):
    """A pool that keeps its values, and may refuse them."""

    def __init__(self, takes: bool = True) -> None:
        super().__init__([])
        self.takes = takes
        self.records: list[SampleRecord] = []

    @property
    def reachable(self) -> dict[str, bool]:
        return {"a:1": self.takes}

    def put_many(self, values: Mapping[str, bytes]) -> set[str]:
        ((key, value),) = values.items()
        decoded = sample_reader.decode(value)
        assert isinstance(decoded, SampleRecord)
        assert key == f"steelyard:1:sample:{decoded.upstream}:{decoded.peer}"
        self.records.append(decoded)
        return {key} if self.takes else set()


class Window:
    """An output that keeps every status."""

    def __init__(self) -> None:
        self.shown: list[Status] = []

    def show(self, status: Status) -> None:
        self.shown.append(status)

    def close(self) -> None:
        pass


def stream(seq: int = 0, key: bytes | None = None) -> RecordStream:
    return RecordStream(
        upstream="web",
        peer="server-1",
        scope="host",
        boot="b1",
        wall_clock=lambda: 1790000000.5,
        seq=seq,
        key=key,
    )


def agent_on(
    readings: list[Reading | Absent], shelf: Shelf, outputs: Sequence[Window] = (), seq: int = 0
) -> Agent:
    source: Iterator[Reading | Absent] = iter(readings)
    return Agent(
        Sampler(lambda: next(source), NOTHING),
        stream(seq=seq),
        shelf,
        interval_s=1.0,
        stale_s=3.0,
        clock=lambda: 77.0,
        show=[output.show for output in outputs],
    )


def test_the_first_reading_is_only_a_start() -> None:
    shelf = Shelf()
    agent = agent_on([host(0, 10), host(1, 11)], shelf)
    assert agent.tick() is None
    assert agent.tick() == SampleRecord(
        upstream="web",
        peer="server-1",
        boot="b1",
        seq=1,
        taken_at_ms=1790000000500,
        interval_s=1.0,
        utilization=(0.5, None, None, None),
        capacity=(2, None, None, None),
        scope="host",
    )
    assert [sent.seq for sent in shelf.records] == [1]


def test_seq_counts_up_though_stores_refuse() -> None:
    shelf = Shelf(takes=False)
    agent = agent_on([host(n, n) for n in range(4)], shelf)
    for _ in range(4):
        agent.tick()
    assert [sent.seq for sent in shelf.records] == [1, 2, 3]


def test_seq_goes_on_from_the_agent_before() -> None:
    shelf = Shelf()
    agent = agent_on([host(0, 10), host(1, 11)], shelf, seq=41)
    agent.tick()
    agent.tick()
    assert [sent.seq for sent in shelf.records] == [42]


def test_every_tick_is_shown_with_what_became_of_the_samples() -> None:
    shelf, window = Shelf(), Window()
    agent = agent_on([host(0, 10), host(1, 11), host(2, 12), GONE], shelf, [window])
    agent.tick()
    taken = agent.tick()
    shelf.takes = False
    agent.tick()
    agent.tick()
    assert [status.record is not None for status in window.shown] == [False, True, True, False]
    assert window.shown[1] == Status(
        at_s=77.0, stale_s=3.0, record=taken, delivered=1, dropped=0, reachable={"a:1": True}
    )
    assert [(status.delivered, status.dropped) for status in window.shown[2:]] == [(1, 1), (1, 1)]


def test_with_a_key_every_value_is_signed() -> None:
    values: list[bytes] = []

    class Raw(MemcachedWriter):
        def put_many(self, some: Mapping[str, bytes]) -> set[str]:
            assert list(some) == ["steelyard:1:sample:web:server-1"]
            values.extend(some.values())
            return set(some)

    agent = Agent(
        Sampler(iter([host(0, 10), host(1, 11), host(2, 12)]).__next__, NOTHING),
        stream(key=b"k" * 32),
        Raw([]),
        interval_s=1.0,
        stale_s=3.0,
        clock=lambda: 0.0,
    )
    agent.tick()
    sent = [agent.tick(), agent.leave()]
    assert [signature.read(b"k" * 32, value, sample_reader.decode) for value in values] == sent


def test_a_process_that_is_absent_sends_nothing_and_is_picked_up_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    readings: list[Reading | Absent] = [
        GONE,
        GONE,
        app(2, 0),
        app(3, 0.5),
        GONE,
        GONE,
        app(6, 0.2, started_s=5.5),
        app(7, 0.7, started_s=5.5),
    ]
    agent = agent_on(readings, Shelf())
    sent = [agent.tick() for _ in readings]
    assert [record is not None for record in sent] == [False, False, False, True, False, False, False, True]
    assert [entry.getMessage() for entry in caplog.records] == [
        "process 7 is not running: no samples until it is there",
        "watching process 7 (app)",
        "process 7 is not running: no samples until it is there",
        "watching process 7 (app), which was restarted",
    ]


def test_a_restart_between_two_ticks_starts_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    agent = agent_on(
        [app(0, 5), app(1, 0.1, started_s=0.5, pid=8), app(2, 0.6, started_s=0.5, pid=8)], Shelf()
    )
    sent = [agent.tick() for _ in range(3)]
    assert sent[:2] == [None, None]
    assert sent[2] is not None
    assert sent[2].utilization[0] == 0.5
    assert caplog.records[-1].getMessage() == "watching process 8 (app), which was restarted"


def test_leaving_sends_a_fresh_sample_that_says_so() -> None:
    agent = agent_on([host(0, 10), host(1, 11), host(1.5, 12)], Shelf())
    agent.tick()
    agent.tick()
    last = agent.leave()
    assert (last.seq, last.leaving, last.interval_s, last.utilization[0]) == (2, True, 0.5, 1.0)


def test_leaving_after_the_process_has_ended_repeats_the_last_figures() -> None:
    agent = agent_on([app(0, 1), app(1, 1.5), GONE], Shelf())
    agent.tick()
    agent.tick()
    last = agent.leave()
    assert (last.seq, last.leaving, last.utilization[0]) == (2, True, 0.5)


def test_leaving_before_anything_was_measured_still_says_so() -> None:
    last = agent_on([GONE], Shelf()).leave()
    assert (last.seq, last.leaving, last.utilization) == (1, True, (None, None, None, None))
    assert isinstance(sample_reader.decode(sample_record.encode(last)), SampleRecord)
