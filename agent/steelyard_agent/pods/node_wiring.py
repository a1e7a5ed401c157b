"""Builds the parts of a node's agent from its settings."""

import random
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from steelyard_protocol import memcached_writer
from steelyard_protocol.memcached_writer import MemcachedWriter

from steelyard_agent.agent import Sampler
from steelyard_agent.moment import Moment
from steelyard_agent.outputs.node_metrics import NodeStatus
from steelyard_agent.pods.api_client import ApiClient
from steelyard_agent.pods.node_agent import NodeAgent
from steelyard_agent.pods.pod_list import Pod
from steelyard_agent.pods.pod_poll import PodPoll
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.readers.cgroup import CgroupReader
from steelyard_agent.readers.files import ColumnReader
from steelyard_agent.readers.machine_counters import MachineCounters, devices_below
from steelyard_agent.readers.pod_groups import PodGroups
from steelyard_agent.readers.pod_network import PodNetwork
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.sample import Indicators

# On the wire, a pod has the scope of its measurement.
SCOPE = "cgroup"


def pod_poll(settings: PodsSettings) -> PodPoll:
    """Return the poll of the node's pods, which has not begun yet."""
    client = ApiClient(settings.api_server, settings.service_account, settings.node)
    return PodPoll(client, random=random.random)


def node_agent(
    node: str,
    poll: PodPoll,
    pool: MemcachedWriter,
    *,
    limits: Indicators,
    interval_s: float,
    key: bytes | None,
    show: Sequence[Callable[[NodeStatus], None]] = (),
    extras: bool = False,
) -> NodeAgent:
    """Return the agent of the poll's pods. `extras`: also read figures that are only shown."""
    return NodeAgent(
        lambda: poll.pods,
        watcher(limits, key, extras=extras),
        pool,
        node=node,
        interval_s=interval_s,
        stale_s=memcached_writer.ttl_s(interval_s),
        clock=time.monotonic,
        show=show,
        listed=lambda: poll.reachable,
    )


def watcher(
    limits: Indicators,
    key: bytes | None,
    *,
    extras: bool = False,
    root: Path = Path("/"),
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[Pod], tuple[Sampler, RecordStream]]:
    """Return the factory of a pod's sampler and records; all pods share one view of the machine."""
    groups = PodGroups(root=root)
    machine, moment = MachineCounters(devices_below(root), ColumnReader()), Moment()

    def watch(pod: Pod) -> tuple[Sampler, RecordStream]:
        find = partial(groups.find, pod.uid)
        reader = CgroupReader(
            root=root,
            find=find,
            count_io=limits.io is not None,
            # A pod's NIC has no true speed: without a capacity its bytes are no utilization.
            count_net=limits.net is not None or extras,
            nics=PodNetwork(find, root=root),
            extras=extras,
            name=f"pod {pod.full_name}",
            machine=machine,
            moment=moment,
            clock=clock,
        )
        stream = RecordStream(
            upstream=pod.upstream,
            peer=pod.name,
            scope=SCOPE,
            # Another pod of the same name (a StatefulSet's) starts its counters again.
            boot=secrets.token_hex(8),
            wall_clock=time.time,
            key=key,
        )
        return Sampler(reader, limits), stream

    return watch
