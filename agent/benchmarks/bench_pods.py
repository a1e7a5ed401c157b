"""The costs of a node's agent by number of pods: CPU and memory. As root; `--pods 1,30,110,250`.

A real agent, as the DaemonSet runs it, delivers to a real Memcached, once a second. The pods are groups
arranged as a kubelet's, each with a process in its own network. An API server with recorded answers lists
them. CPU is the kernel's own count of the agent's run time, polls of the API server included.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from benchmarks import bench_agent
from benchmarks.bench_agent import Cost
from pymemcache.client.base import Client
from steelyard_agent.readers import cgroup_files
from steelyard_protocol import wire

from testing.daemons import memcached_in
from testing.pods_api_server import pod, pod_list, pods_api_server

SECONDS = 20.0

# Until the first sample: the agent starts, asks for the pods, and reads each twice.
PATIENCE_S = 60.0

QUALITY = "/kubepods/burstable"

CONTROLLERS = "+cpu +cpuset +memory +io"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="CPU and memory of a node's agent, by number of pods")
    parser.add_argument("--pods", default="1,30,110,250", help="how many, with commas between several cases")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of wall time, for each case")
    chosen = parser.parse_args(arguments)
    print("| pods | CPU per tick, ms | CPU per pod, ms | of one `cgroup` agent meanwhile | resident, MB |")
    print("|--:|--:|--:|--:|--:|")
    for count in (int(part) for part in chosen.pods.split(",")):
        node, alone = measured(count, chosen.seconds)
        ratio = f"{node.tick_s / count / alone.tick_s:.2f} of {1000 * alone.tick_s:.2f} ms"
        figures = f"{1000 * node.tick_s:.1f} | {1000 * node.tick_s / count:.2f} | {ratio}"
        print(f"| {count} | {figures} | {node.resident_bytes / 1e6:.1f} |")
    return 0


def measured(count: int, seconds: float) -> list[Cost]:
    """Return the costs of an agent of `count` pods, and of an agent alone meanwhile."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        uids = [stack.enter_context(made_pod()) for _ in range(count)]
        api = stack.enter_context(pods_api_server(folder / "account"))
        api.body = pod_list(*(pod(f"p{number}", uid) for number, uid in enumerate(uids)))
        os.environ.update(api.environment)
        address = stack.enter_context(memcached_in(folder)).address
        key = bench_agent.key_in(folder)
        flags = ["--scope", "pods", "--node", "node-1", "--service-account", str(api.folder)]
        more = ["--net-capacity", "125000000", "--key-file", str(key)]
        process = bench_agent.agent(stack, [*flags, *more], address, 1.0)
        # A busy machine makes both dearer alike.
        own = ["--scope", "cgroup", "--peer", f"p{count}"]
        alone = bench_agent.agent(stack, [*own, *more], address, 1.0)
        client = stack.enter_context(closing(Client(address, connect_timeout=2, timeout=2)))
        pids = {count - 1: process.pid, count: alone.pid}
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s and any(
            client.get(wire.sample_key("web", f"p{number}")) is None for number in pids
        ):
            time.sleep(0.1)
        return bench_agent.costs_of(client, pids, seconds)


@contextmanager
def made_pod() -> Iterator[str]:
    """Make a pod of one process, and take it away again; yield its uid."""
    uid = str(uuid.uuid4())
    mounts = [mount for mount in cgroup_files.mounts(Path("/")) if "name=systemd" not in mount.controllers]
    points = [Path(mount.point) for mount in mounts]
    process = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
    try:
        for point in points:
            _make(point, f"{QUALITY}/pod{uid}/container")
            Path(f"{point}{QUALITY}/pod{uid}/container/cgroup.procs").write_text(str(process.pid))
        yield uid
    finally:
        process.kill()
        process.wait()
        for point in points:
            for folder in (f"{point}{QUALITY}/pod{uid}/container", f"{point}{QUALITY}/pod{uid}"):
                with suppress(FileNotFoundError):
                    Path(folder).rmdir()


def _make(point: Path, path: str) -> None:
    folder = point
    for part in path.strip("/").split("/"):
        above, folder = folder, folder / part
        if (above / "cgroup.subtree_control").exists():
            with suppress(OSError):  # v2, where v1 has some of them
                (above / "cgroup.subtree_control").write_text(CONTROLLERS)
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # v1: a group without CPUs takes no process.
            if (above / file).exists() and not (folder / file).read_text().strip():
                (folder / file).write_text((above / file).read_text())


if __name__ == "__main__":
    sys.exit(main())
