"""Several laws at once: the live one and its shadows, and the blend of two laws in a migration.

Pure. A shadow law steps on the same snapshots and keeps its own memory, so that it can become the live one
without warming up. A migration goes from 0 to 100 %.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import Struct

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.decision_builder import quantize_with_pins
from steelyard_controller.laws.law import Law
from steelyard_controller.laws.memory import Memory
from steelyard_controller.laws.snapshot import Batch, Snapshot, alike, batch_of, cleaned


class StepResult(Struct, frozen=True):
    """The memories and the decisions after one tick, by the laws' names."""

    memories: dict[str, Memory]
    decisions: dict[str, Decision]


class Due(Struct, frozen=True):
    """The laws of one upstream, their memories, and the snapshot to step on.

    `batch` has the snapshots of several upstreams, and this one's at `row`; None: it is by itself.
    """

    laws: Mapping[str, Law]
    memories: Mapping[str, Memory]
    snapshot: Snapshot
    batch: Batch | None = None
    row: int = 0


def step_upstreams(due: Sequence[Due]) -> list[StepResult]:
    """Step the laws of several upstreams: at once if law, parameters and shape are the same.

    A law without a memory starts with the empty one. Calls of numpy take longer to start than to compute with
    ten peers: a hundred such upstreams together take a twentieth of the time.
    """
    results = [StepResult(memories={}, decisions={}) for _ in due]
    for name, positions in _groups(due):
        law = due[positions[0]].laws[name]
        memories = [due[at].memories.get(name) or law.start() for at in positions]
        stepped = law.step_batch(memories, _batch([due[at] for at in positions]))
        for at, (memory, decision) in zip(positions, stepped, strict=True):
            results[at].memories[name], results[at].decisions[name] = memory, decision
    return results


def _groups(due: Sequence[Due]) -> Iterator[tuple[str, list[int]]]:
    """Yield the name of a law, and the places of the upstreams for which it can step at once."""
    by_object: defaultdict[tuple[str, int, Hashable], list[int]] = defaultdict(list)
    for position, each in enumerate(due):
        shape = alike(each.snapshot) if each.batch is None else each.batch.shape
        for name, law in each.laws.items():
            by_object[name, id(law), shape].append(position)
    # Most upstreams have the same object, and to hash all parameters of each takes longer than the rest.
    groups: defaultdict[tuple[str, Any, Hashable], list[int]] = defaultdict(list)
    for (name, _, shape), positions in by_object.items():
        groups[name, due[positions[0]].laws[name].bound, shape] += positions
    for (name, *_), positions in groups.items():
        yield name, sorted(positions)


def _batch(due: Sequence[Due]) -> Batch:
    """Return the snapshots of some upstreams, cleaned: as they were built together, or else put together."""
    together = due[0].batch
    if together is not None and all(each.batch is together for each in due):
        return cleaned(together.of([each.row for each in due]))
    return batch_of([each.snapshot for each in due])


def blend(before: Decision, after: Decision, percent: float) -> Decision:
    """Return the decision at `percent` of the way from one law's to another's.

        W_j = (1 - percent/100) W_before,j + (percent/100) W_after,j

    0 and 100 are the decisions themselves. Raises ValueError for a percentage out of 0..100, and for
    decisions about different peers, a bug of the caller.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"a blend of {percent:g} %; give 0 to 100")
    if before.ids != after.ids:
        raise ValueError("the two decisions are not about the same peers")
    if percent == 0:
        return before
    if percent == 100:
        return after
    part = percent / 100.0
    # The two laws may have a different S.
    weights = (1.0 - part) * before.weights * (after.total / before.total) + part * after.weights
    # Both laws kept the pins; neither a different S nor rounding may move them.
    pinned = ~np.isnan(after.columns["pinned"])
    weights[pinned] = after.weights[pinned]
    if not pinned.all():
        weights[~pinned] *= (after.total - weights[pinned].sum()) / weights[~pinned].sum()
    return replace(
        after,
        law=f"{before.law}+{after.law}",
        weights=weights,
        published=quantize_with_pins(weights, pinned, after.total),
        columns={
            **after.columns,
            "weight_from": before.weights,
            "weight_to": after.weights,
            "weight_before": (1.0 - part) * before.columns["weight_before"]
            + part * after.columns["weight_before"],
            "blend": np.full(len(weights), part),
        },
        parts=((1.0 - part, before), (part, after)),
    )
