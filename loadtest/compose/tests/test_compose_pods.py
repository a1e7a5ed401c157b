"""Real containers, laid out as a kubelet lays out pods, and one agent outside of them, as the DaemonSet's is.

The agent's samples are compared with the groups' own counters; `-s` shows it beside `docker stats`.
"""

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from steelyard_agent.cgroup_text import Cgroup
from steelyard_agent.readers import cgroup_files
from steelyard_protocol import sample_reader, wire
from steelyard_protocol.sample_record import INDICATORS, SampleRecord

from testing.daemons import Daemon
from testing.pods_api_server import PodsApiServer, pod, pod_list, pods_api_server

from .stack import CHECKOUT, run, until

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1200)]

BASE = "python:3.11-slim-bookworm"
IMAGE = "steelyard-agent:under-test"

INTERVAL_S = 2.0
NET_CAPACITY = 1_000_000

# Slices of 20 ms, so that an interval holds a hundred of them.
BURNS_HALF_A_CORE = """
import time
while True:
    began_s = time.process_time()
    while time.process_time() - began_s < 0.02: pass
    time.sleep(0.02)
"""

# To the bridge's own address, where nobody listens.
SENDS = """
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    while True:
        try: sender.sendto(bytes(1000), ("172.17.0.1", 9))
        except ConnectionRefusedError: pass
        time.sleep(0.005)
"""

WORK = {
    "web-burn": ["python3", "-c", BURNS_HALF_A_CORE],
    "web-idle": ["sleep", "3600"],
    "web-net": ["python3", "-c", SENDS],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A container that is its whole pod; `groups` are the pod's, as a kubelet makes them."""

    name: str
    uid: str
    container: str
    groups: Mapping[str, Cgroup]

    def write(self, controller: str, file: str, text: str) -> None:
        """Set a limit on the pod, as the kubelet does."""
        Path(self.groups[controller].folder, file).write_text(text)


@dataclass(slots=True)
class Counter:
    """CPU seconds of a pod by its group's own counter, read many times a second."""

    one: Running
    seen: list[tuple[float, float]] = field(default_factory=list)

    def look(self) -> None:
        """Read it now."""
        self.seen.append((time.time(), cgroup_files.used_s(Path("/"), self.one.groups["cpuacct"])))

    def cores(self, record: SampleRecord) -> float:
        """Return the cores in use in a sample's interval, as precisely as it was read."""
        end_s = record.taken_at_ms / 1000
        before, after = (
            min(self.seen, key=lambda one: abs(one[0] - at_s)) for at_s in (end_s - record.interval_s, end_s)
        )
        return (after[1] - before[1]) / (after[0] - before[0])


@pytest.fixture(scope="module")
def image() -> str:
    """The agent's own image."""
    engine = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    if engine.returncode != 0:
        pytest.fail(f"no Docker engine answers; deploy/compose/test starts one: {engine.stderr.strip()}")
    run(
        [
            "docker",
            "build",
            "--quiet",
            "--tag",
            IMAGE,
            "--file",
            str(CHECKOUT / "agent/Dockerfile"),
            str(CHECKOUT),
        ]
    )
    return IMAGE


@pytest.fixture
def pods() -> Iterator[dict[str, Running]]:
    """Three pods of one container each: one burns half a core, one does nothing, one sends."""
    driver = run(["docker", "info", "--format", "{{.CgroupDriver}}"]).stdout.strip()
    with ExitStack() as stack:
        made = {}
        for name, command in WORK.items():
            uid = str(uuid.uuid4())
            path, parent = _place(uid, driver)
            stack.callback(_remove_groups, path)
            container = run(
                ["docker", "run", "--detach", "--cgroup-parent", parent, BASE, *command]
            ).stdout.strip()
            stack.callback(run, ["docker", "rm", "--force", container], check=False)
            groups = cgroup_files.groups_at(Path("/"), cgroup_files.mounts(Path("/")), path)
            made[name] = Running(name=name, uid=uid, container=container, groups=groups)
        yield made


def _place(uid: str, driver: str) -> tuple[str, str]:
    """Return the path of a burstable pod's group, and what Docker calls it."""
    if driver == "systemd":
        name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        return f"/kubepods.slice/kubepods-burstable.slice/{name}", name
    return f"/kubepods/burstable/pod{uid}", f"/kubepods/burstable/pod{uid}"


def _remove_groups(path: str) -> None:
    for mount in cgroup_files.mounts(Path("/")):
        folder = Path(f"{mount.point}{path}")
        until(lambda folder=folder: _removed(folder), f"{folder} is empty")  # type: ignore[misc]


def _removed(folder: Path) -> bool:
    try:
        for inside in folder.glob("*/"):
            inside.rmdir()
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # its processes have not all gone
        return False
    return True


@pytest.fixture
def api(tmp_path: Path, pods: dict[str, Running]) -> Iterator[PodsApiServer]:
    """An API server with a list of the three pods."""
    with pods_api_server(tmp_path / "account") as running:
        running.body = pod_list(*(pod(one.name, one.uid) for one in pods.values()))
        yield running


@pytest.fixture
def agent(image: str, api: PodsApiServer, memcached: Daemon) -> Iterator[str]:
    """The agent in a container of its own, with no more rights than the DaemonSet gives it."""
    command = [
        "docker", "run", "--detach", "--pid", "host", "--network", "host", "--user", "65534:65534",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only",
        "--volume", "/sys/fs/cgroup:/host/sys/fs/cgroup:ro",
        "--volume", f"{api.folder}:/var/run/secrets/kubernetes.io/serviceaccount:ro",
        *(part for name, value in api.environment.items() for part in ("--env", f"{name}={value}")),
        "--env", "STEELYARD_AGENT_NODE=node-1", image, "--scope", "pods", "--memcached", memcached.address,
        "--interval", f"{INTERVAL_S:g}", "--net-capacity", str(NET_CAPACITY),
    ]  # fmt: skip
    container = run(command).stdout.strip()
    yield container
    run(["docker", "rm", "--force", container], check=False)


def sample_of(memcached: Daemon, peer: str) -> SampleRecord | None:
    """Return the present sample of a pod."""
    client = Client(("127.0.0.1", memcached.port), connect_timeout=10, timeout=10)
    try:
        value = client.get(wire.sample_key("web", peer))
    finally:
        client.close()
    if value is None:
        return None
    record = sample_reader.decode(value)
    assert isinstance(record, SampleRecord), record
    return record


def newer_than(memcached: Daemon, peer: str, seq: int) -> SampleRecord:
    """Wait for a sample of a pod after number `seq`; return it."""
    records: list[SampleRecord] = []

    def look() -> bool:
        record = sample_of(memcached, peer)
        if record is not None and record.seq > seq:
            records.append(record)
        return bool(records)

    until(look, f"a sample of {peer} after number {seq}")
    return records[0]


def column(record: SampleRecord, indicator: str) -> float:
    """Return one of a sample's utilizations, which must exist."""
    value = record.utilization[INDICATORS.index(indicator)]
    assert value is not None
    return value


@pytest.mark.usefixtures("agent")
def test_one_agent_outside_samples_every_pod_and_its_figures_are_the_groups_own(
    pods: dict[str, Running], memcached: Daemon
) -> None:
    v2 = pods["web-burn"].groups["cpuacct"].mount.version == 2
    first = {name: newer_than(memcached, name, 0) for name in pods}
    # A limit on the pod, as the kubelet sets it: its CPU is a share of that from the next sample on.
    pods["web-burn"].write("cpu", *(("cpu.max", "100000 100000") if v2 else ("cpu.cfs_quota_us", "100000")))
    counters = {name: Counter(one) for name, one in pods.items()}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            for counter in counters.values():
                counter.look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        # Two on: the first of them began before the counters were looked at.
        later = {name: newer_than(memcached, name, record.seq + 2) for name, record in first.items()}
        stats = _docker_stats(pods)
    finally:
        stop.set()
        watching.join()
    cores = {name: column(record, "cpu") * (record.capacity[0] or 0.0) for name, record in later.items()}
    counted = {name: counters[name].cores(record) for name, record in later.items()}
    _print_table(later, cores, counted, stats)
    assert later["web-burn"].capacity[0] == 1.0
    assert later["web-idle"].capacity[0] == float(os.cpu_count() or 0)
    for name in pods:
        assert cores[name] == pytest.approx(counted[name], abs=0.1), name
    assert cores["web-burn"] > 5 * max(cores["web-idle"], 0.01)
    # A busy machine lets it send less, and never more: 200 datagrams of 1042 bytes in a second.
    assert 0.02 < column(later["web-net"], "net") < 0.25
    assert column(later["web-idle"], "net") < 0.01


def test_a_container_that_restarts_and_a_pod_that_goes_move_no_other_pod(
    pods: dict[str, Running], agent: str, memcached: Daemon
) -> None:
    before = {name: newer_than(memcached, name, 0) for name in pods}
    run(["docker", "restart", "--time", "0", pods["web-net"].container])
    again = newer_than(memcached, "web-net", before["web-net"].seq + 2)
    assert again.boot == before["web-net"].boot
    assert column(newer_than(memcached, "web-net", again.seq), "net") > 0
    run(["docker", "rm", "--force", pods["web-idle"].container])
    _remove_groups(pods["web-idle"].groups["cpuacct"].path)
    until(lambda: sample_of(memcached, "web-idle") is None, "the pod that went has no sample")
    burn = newer_than(memcached, "web-burn", before["web-burn"].seq)
    assert burn.boot == before["web-burn"].boot
    said = run(["docker", "logs", agent]).stderr
    assert said.count("pod default/web-idle: its control group cannot be found") == 1


def _docker_stats(pods: Mapping[str, Running]) -> dict[str, tuple[str, str]]:
    """Return CPU and memory of each pod's container, as `docker stats` prints them."""
    lines = run(
        ["docker", "stats", "--no-stream", "--no-trunc", "--format", "{{.ID}}\t{{.CPUPerc}}\t{{.MemUsage}}"]
    ).stdout.splitlines()
    columns = {line.split("\t")[0]: line.split("\t")[1:] for line in lines}
    return {name: (columns[one.container][0], columns[one.container][1]) for name, one in pods.items()}


def _print_table(
    records: Mapping[str, SampleRecord],
    cores: Mapping[str, float],
    counted: Mapping[str, float],
    stats: Mapping[str, tuple[str, str]],
) -> None:
    print(
        "\n| pod | cpu | mem | net | cpu, of one core | the group's counter | `docker stats`: CPU | memory |"
    )
    print("|---|---|---|---|--:|--:|--:|--:|")
    for name, record in records.items():
        cpu, mem, net = (column(record, indicator) for indicator in ("cpu", "mem", "net"))
        limit, memory = record.capacity[0] or 0.0, record.capacity[3] or 0.0
        used = (
            f"{cpu:.1%} of {limit:g} | {mem * memory / 2**20:.1f} MiB | {net * NET_CAPACITY / 1000:.0f} kB/s"
        )
        percent, held = stats[name][0], stats[name][1].split(" / ")[0]
        one_core = f"{100 * cores[name]:.1f} % | {100 * counted[name]:.1f} %"
        print(f"| {name} | {used} | {one_core} | {percent} | {held} |")
