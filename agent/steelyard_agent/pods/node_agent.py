"""One tick for all pods of a node: read, sample, send in one round, show. `loop` decides when.

I/O comes in as arguments. The state of a pod, its last reading and the number of its last record, lives
as long as the pod is listed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.sample_record import SampleRecord

from steelyard_agent.agent import Sampler
from steelyard_agent.evidence import Evidence
from steelyard_agent.outputs.node_metrics import NodeStatus
from steelyard_agent.pods.pod_list import Pod
from steelyard_agent.record_stream import RecordStream


@dataclass(slots=True, eq=False)
class _Watched:
    sampler: Sampler
    stream: RecordStream
    evidence: Sequence[Evidence] = ()


class NodeAgent:
    """The pods that `pods` returns; `watch` makes the sampler and the records of each.

    A pod under deletion is sampled until its control group is gone; its samples are marked as leaving.
    `clock` is monotonic; a status is stale after `stale_s`; `listed` is whether the API server answers.
    """

    def __init__(
        self,
        pods: Callable[[], Sequence[Pod]],
        watch: Callable[[Pod], tuple[Sampler, RecordStream]],
        pool: MemcachedWriter,
        *,
        node: str,
        interval_s: float,
        stale_s: float,
        clock: Callable[[], float],
        show: Sequence[Callable[[NodeStatus], None]] = (),
        listed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._pods = pods
        self._watch = watch
        self._pool = pool
        self.interval_s = interval_s
        self._stale_s = stale_s
        self._clock = clock
        self._show = show
        self._listed = listed
        self.name = f"node {node}"
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._delivered = 0
        self._dropped = 0

    def tick(self) -> tuple[SampleRecord, ...]:
        """Sample every pod, send and show the samples; return them."""
        pods = {(pod.uid, pod.upstream): pod for pod in self._pods()}
        self._watched = {
            key: self._watched.get(key) or _Watched(*self._watch(pod)) for key, pod in pods.items()
        }
        records: list[SampleRecord] = []
        values: dict[str, bytes] = {}
        for key, watched in self._watched.items():
            taken = watched.sampler.step()
            if taken is not None:
                record, value = watched.stream.next(taken, leaving=pods[key].leaving)
                records.append(record)
                values[watched.stream.at] = value
            watched.evidence = () if taken is None else taken.evidence
        if values:
            taken_keys = self._pool.put_many(values)
            self._delivered += len(taken_keys)
            self._dropped += len(values) - len(taken_keys)
        self._log_changes(tuple(records))
        return tuple(records)

    def leave(self) -> None:
        """Send nothing: the pods go on without this agent, and the next one samples them."""

    def evidence(self) -> dict[str, Sequence[Evidence]]:
        """Return the evidence of the last samples, by upstream/peer; nothing for a pod without one."""
        return {watched.stream.name: watched.evidence for watched in self._watched.values()}

    def _log_changes(self, records: tuple[SampleRecord, ...]) -> None:
        if not self._show:
            return
        status = NodeStatus(
            at_s=self._clock(),
            stale_s=self._stale_s,
            records=records,
            absent=len(self._watched) - len(records),
            delivered=self._delivered,
            dropped=self._dropped,
            reachable=self._pool.reachable,
            listed=self._listed(),
        )
        for show in self._show:
            show(status)
