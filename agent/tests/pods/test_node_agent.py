"""The agent of a node on invented readings: a sample for each pod, in one round."""

from collections.abc import Iterator, Mapping

import pytest
from steelyard_agent.agent import Sampler
from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.node_metrics import NodeStatus
from steelyard_agent.pods.node_agent import NodeAgent
from steelyard_agent.pods.pod_list import Pod
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.sample import NOTHING
from steelyard_agent.scopes.host import HostReading
from steelyard_agent.scopes.reading import Absent, Reading
from steelyard_protocol import sample_reader, signature
from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.sample_record import SampleRecord

KEY = b"k" * 32


def pod(name: str, *, uid: str = "", upstream: str = "web", leaving: bool = False) -> Pod:
    return Pod(namespace="default", name=name, uid=uid or f"u-{name}", upstream=upstream, leaving=leaving)


def readings(busy_s: float) -> Iterator[Reading]:
    """Yield readings with this many busy seconds of two cores in each second."""
    for n in range(1000):
        yield HostReading(at_s=n, cores=2, cpu_busy_s=n * busy_s, memory=None, nics=None, disks=None)


class Shelf(MemcachedWriter):
    """A pool that keeps its values, round by round, and may refuse them."""

    def __init__(self, takes: bool = True) -> None:
        super().__init__([])
        self.takes = takes
        self.rounds: list[dict[str, SampleRecord]] = []

    @property
    def reachable(self) -> dict[str, bool]:
        return {"a:1": self.takes}

    def put_many(self, values: Mapping[str, bytes]) -> set[str]:
        opened = {key: signature.read(KEY, value, sample_reader.decode) for key, value in values.items()}
        records = {key: record for key, record in opened.items() if isinstance(record, SampleRecord)}
        assert records.keys() == values.keys()
        self.rounds.append(records)
        return set(values) if self.takes else set()


class Node:
    """A node with pods set by the test, each with its own load."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = list(pods)
        self.busy_s = {"a": 0.5, "b": 1.0}
        self.gone: set[str] = set()
        self.made: list[str] = []
        self.shelf = Shelf()
        self.shown: list[NodeStatus] = []
        self.agent = NodeAgent(
            lambda: self.pods,
            self.watch,
            self.shelf,
            node="node-1",
            interval_s=1.0,
            stale_s=3.0,
            clock=lambda: 77.0,
            show=[self.show],
            listed=lambda: True,
        )

    def watch(self, one: Pod) -> tuple[Sampler, RecordStream]:
        self.made.append(one.uid)
        source = readings(self.busy_s.get(one.name, 0.0))

        def read() -> Reading | Absent:
            now = next(source)
            return Absent(f"{one.name} is gone") if one.name in self.gone else now

        stream = RecordStream(
            upstream=one.upstream,
            peer=one.name,
            scope="cgroup",
            boot=f"boot{len(self.made)}",
            wall_clock=lambda: 1.0,
            key=KEY,
        )
        return Sampler(read, NOTHING), stream

    def show(self, status: NodeStatus) -> None:
        self.shown.append(status)


def test_every_pod_has_a_sample_under_its_own_name_and_all_go_in_one_round() -> None:
    node = Node(pod("a"), pod("b", upstream="shop"))
    assert node.agent.tick() == ()
    sent = node.agent.tick()
    assert [(one.upstream, one.peer, one.scope, one.utilization[0]) for one in sent] == [
        ("web", "a", "cgroup", 0.25),
        ("shop", "b", "cgroup", 0.5),
    ]
    assert node.shelf.rounds == [
        {"steelyard:1:sample:web:a": sent[0], "steelyard:1:sample:shop:b": sent[1]},
    ]


def test_each_pods_records_are_numbered_apart() -> None:
    node = Node(pod("a"))
    node.agent.tick()
    node.agent.tick()
    node.pods.append(pod("b"))
    node.agent.tick()
    assert [(one.peer, one.boot, one.seq) for one in node.agent.tick()] == [
        ("a", "boot1", 3),
        ("b", "boot2", 1),
    ]


def test_another_pod_of_the_same_name_begins_anew() -> None:
    node = Node(pod("a", uid="1"))
    for _ in range(3):
        node.agent.tick()
    node.pods = [pod("a", uid="2")]
    assert node.agent.tick() == ()
    (sent,) = node.agent.tick()
    assert (sent.boot, sent.seq) == ("boot2", 1)
    assert node.made == ["1", "2"]


def test_a_pod_whose_label_changes_is_sampled_for_the_other_upstream() -> None:
    node = Node(pod("a"))
    node.agent.tick()
    node.pods = [pod("a", upstream="shop")]
    node.agent.tick()
    assert [one.upstream for one in node.agent.tick()] == ["shop"]


def test_a_pod_that_is_being_deleted_is_sampled_until_its_group_is_gone_and_says_that_it_leaves() -> None:
    node = Node(pod("a"), pod("b"))
    node.agent.tick()
    node.pods[0] = pod("a", leaving=True)
    assert [(one.peer, one.leaving) for one in node.agent.tick()] == [("a", True), ("b", False)]
    node.gone.add("a")
    assert [one.peer for one in node.agent.tick()] == ["b"]
    assert node.made == ["u-a", "u-b"]


def test_a_node_without_pods_sends_nothing() -> None:
    node = Node()
    assert node.agent.tick() == ()
    assert node.shelf.rounds == []


def test_an_agent_that_leaves_says_nothing_because_the_pods_go_on() -> None:
    node = Node(pod("a"))
    node.agent.tick()
    node.agent.leave()
    assert node.shelf.rounds == []


def test_what_became_of_the_samples_is_shown() -> None:
    node = Node(pod("a"), pod("b"))
    node.gone.add("b")
    node.agent.tick()
    sent = node.agent.tick()
    node.shelf.takes = False
    node.agent.tick()
    assert node.shown[1] == NodeStatus(
        at_s=77.0,
        stale_s=3.0,
        records=sent,
        absent=1,
        delivered=1,
        dropped=0,
        reachable={"a:1": True},
        listed=True,
    )
    assert (node.shown[2].delivered, node.shown[2].dropped) == (1, 1)


def answer(path: str, status: NodeStatus | None, now_s: float = 78.0) -> tuple[str, str]:
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    text = http_response.respond_of_node(request, status, now_s=now_s, cpu_s=1.5).decode()
    head, _, body = text.partition("\r\n\r\n")
    return head.split("\r\n")[0].removeprefix("HTTP/1.1 "), body


@pytest.fixture
def status() -> NodeStatus:
    node = Node(pod("a"), pod("b"))
    node.gone.add("b")
    node.agent.tick()
    node.agent.tick()
    return node.shown[-1]


def test_metrics_are_by_pod(status: NodeStatus) -> None:
    code, body = answer("/metrics", status)
    assert code == "200 OK"
    lines = body.splitlines()
    assert 'steelyard_agent_utilization{upstream="web",peer="a",indicator="cpu"} 0.25' in lines
    assert 'steelyard_agent_capacity{upstream="web",peer="a",resource="cpu_cores"} 2' in lines
    assert 'steelyard_agent_pods{result="absent"} 1' in lines
    assert 'steelyard_agent_samples_total{result="delivered"} 1' in lines
    assert "steelyard_agent_api_server_up 1" in lines
    assert "process_cpu_seconds_total 1.5" in lines
    assert 'peer="b"' not in body


def test_metrics_of_a_loop_that_stands_still_have_no_samples(status: NodeStatus) -> None:
    _, body = answer("/metrics", status, now_s=81.0)
    assert "steelyard_agent_utilization" not in body
    assert 'steelyard_agent_samples_total{result="delivered"} 1' in body


def test_health_is_that_of_the_loop(status: NodeStatus) -> None:
    assert answer("/healthz", status)[0] == "200 OK"
    assert answer("/healthz", status, now_s=81.0)[0] == "503 Service Unavailable"
    assert answer("/healthz", None)[0] == "503 Service Unavailable"
    assert answer("/orca", status) == ("404 Not Found", "There are /metrics and /healthz.\n")
