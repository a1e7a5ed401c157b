"""Snapshots for the tests of the laws: short to write, complete when built; and the golden cases."""

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from steelyard_controller.laws import Law, Memory
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Floats, Snapshot

GOLDEN = Path(__file__).parent / "golden"

# The capacities of a four-core server.
CAPACITY = (4.0, 125e6, 5000.0, 8e9)

Figures = Sequence[float | None] | float | None


def golden(name: str) -> list[dict[str, Any]]:
    """Return the cases of golden/<name>.json."""
    cases: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return cases


def figures(values: Figures, k: int) -> Floats:
    """Return a column of k floats from one value for all or a value each; None is NaN."""
    each = list(values) if isinstance(values, Sequence) else [values] * k
    return np.array([np.nan if value is None else value for value in each], dtype=np.float64)


def snapshot(
    *,
    ids: Iterable[str] = ("a", "b", "c"),
    cpu: Figures = 0.5,
    utilization: Sequence[Sequence[float | None] | None] | None = None,
    completed: Figures = 100.0,
    t_s: float = 0.0,
    **columns: Any,
) -> Snapshot:
    """Return a snapshot of equal peers, except for the given columns; net, io and mem are a third of cpu."""
    names = tuple(ids)
    k = len(names)
    if utilization is None:
        table = np.outer(figures(cpu, k), (1.0, 0.3, 0.3, 0.3))
    else:
        table = np.array([figures([None] * 4 if row is None else row, 4) for row in utilization])
    capacity = columns.pop("capacity", CAPACITY)
    floats: dict[str, Figures] = {
        "baseline": None,
        "failed": 0.0,
        "in_flight": 1.0,
        "latency_s": 0.01,
        "pinned": None,
        "published": None,
    }
    rest: dict[str, Any] = {name: figures(columns.pop(name, value), k) for name, value in floats.items()}
    ages = columns.pop("sample_age_ticks", 0)
    flags = {"leaving": columns.pop("leaving", ()), "eligible": columns.pop("eligible", names)}
    return Snapshot(
        t_s=t_s,
        ids=names,
        utilization=table.reshape(k, 4),
        sample_age_ticks=np.full(k, ages) if isinstance(ages, int) else np.array(ages, dtype=np.int64),
        capacity=np.array([figures(row, 4) for row in capacity])
        if len(capacity) and isinstance(capacity[0], Sequence)
        else np.tile(figures(capacity, 4), (k, 1)),
        completed=figures(completed, k),
        leaving=np.array([name in flags["leaving"] for name in names], dtype=np.bool_),
        eligible=np.array([name in flags["eligible"] for name in names], dtype=np.bool_),
        **rest,
        **columns,
    )


def steps(law: Law, snapshots: Iterable[Snapshot], memory: Memory | None = None) -> tuple[Memory, Decision]:
    """Run a law over some snapshots, at least one; return its last memory and decision.

    Many tests begin with one snapshot for many ticks. These ticks are computed once for all tests.
    """
    rest, decision = list(snapshots), None
    if memory is None:
        equal = next((tick for tick, each in enumerate(rest) if each is not rest[0]), len(rest))
        memory, decision = _from_the_start(law, rest[0], equal)
        rest = rest[equal:]
    for each in rest:
        memory, decision = law.step(memory, each)
    assert decision is not None
    return memory, decision


_REACHED: dict[Hashable, list[tuple[Memory, Decision]]] = {}


def _from_the_start(law: Law, each: Snapshot, ticks: int) -> tuple[Memory, Decision]:
    if ticks == 1:
        return law.step(law.start(), each)
    columns = (getattr(each, field.name) for field in fields(each))
    content = tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in columns)
    reached = _REACHED.setdefault((law.name, law.bound, content), [])
    while len(reached) < ticks:
        reached.append(law.step(reached[-1][0] if reached else law.start(), each))
    return reached[ticks - 1]


def golden_snapshot(case: dict[str, Any], number: int) -> Snapshot:
    """Return the snapshot of tick `number` of a case of golden/law.json."""
    tick, k = case["ticks"][number], len(case["capacity"])
    return snapshot(
        ids=[f"server-{j}" for j in range(k)],
        t_s=float(number + 1),
        utilization=tick["utilization"],
        sample_age_ticks=tick["sample_age_ticks"],
        report_age_ticks=case["report_age_ticks"],
        capacity=case["capacity"],
        baseline=case["baseline_shares"],
        **{key: tick[key] for key in ("completed", "failed", "in_flight", "latency_s")},
    )


def of(decision: Decision, peer: str) -> int:
    """Return the row of a peer."""
    return decision.ids.index(peer)
