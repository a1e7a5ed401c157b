"""The figures of the upstreams that stepped together, as one of them reads them and as the next step does."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from steelyard_controller.laws.memory import Column, Memories, Memory, Scalar, Schema, put_together
from steelyard_controller.laws.shared_columns import Part
from steelyard_controller.laws.stored_memory import encode_all

SHARED = {"W": np.arange(6.0).reshape(3, 2), "alert": np.array([0.0, 1.0, 0.0])}
SCHEMA = Schema(law="some", version=2, columns={"W": Column(initial=7.0)}, scalars={"alert": Scalar()})
IDS = (("a", "b"), ("c", "d"), ("e", "f"))
STEPPED = Memories(
    schema=SCHEMA,
    ids=IDS,
    indicators=("cpu",),
    columns={"W": SHARED["W"]},
    scalars={"alert": SHARED["alert"][:, None]},
)


def together(memories: Sequence[Memory], *ids: tuple[str, ...]) -> Memories:
    return put_together(memories, SCHEMA, ids, ("cpu",))


def figures(memories: Memories) -> tuple[list[list[float]], list[list[float]]]:
    return memories.columns["W"].tolist(), memories.scalars["alert"].tolist()


def test_a_part_has_the_figures_of_its_upstream_by_name() -> None:
    part = Part(SHARED, 1)
    assert (part["W"].tolist(), part["alert"]) == ([2.0, 3.0], 1.0)
    assert (list(part), len(part), "W" in part, "X" in part) == (["W", "alert"], 2, True, False)
    assert part.get("X") is None


def test_a_memory_of_a_batch_has_the_figures_of_its_upstream() -> None:
    memory = STEPPED.all()[1]
    assert (memory.law, memory.version, memory.ids, memory.indicators) == ("some", 2, ("c", "d"), ("cpu",))
    assert (memory.columns["W"].tolist(), memory.scalars["alert"]) == ([2.0, 3.0], 1.0)
    assert not hasattr(memory, "other")


def test_the_memories_of_a_whole_step_are_put_together_without_a_copy() -> None:
    assert together(STEPPED.all(), *IDS) is STEPPED


def test_some_memories_of_a_step_are_put_together_in_the_order_of_their_upstreams() -> None:
    first, _, last = STEPPED.all()
    assert figures(together([last, first], IDS[2], IDS[0])) == ([[4.0, 5.0], [0.0, 1.0]], [[0.0], [0.0]])


def test_memories_of_several_steps_are_put_together() -> None:
    alone = Memory(
        law="some",
        version=2,
        ids=("z",),
        columns={"W": np.array([9.0])},
        scalars={"alert": 1.0},
        indicators=("cpu",),
    )
    mixed = together([alone, STEPPED.all()[1]], ("z", "new"), IDS[1])
    assert figures(mixed) == ([[9.0, 7.0], [2.0, 3.0]], [[1.0], [1.0]])


def test_memories_of_a_step_follow_their_servers() -> None:
    followed = together(STEPPED.all(), IDS[0], ("d", "c"), ("f", "new"))
    assert figures(followed) == ([[0.0, 1.0], [3.0, 2.0], [5.0, 7.0]], [[0.0], [1.0], [0.0]])


def test_a_changed_memory_of_a_step_is_put_together_with_the_others() -> None:
    changed = replace(STEPPED.all()[0], ids=("x", "y"))
    assert figures(together([changed, STEPPED.all()[1]], ("y", "x"), IDS[1])) == (
        [[1.0, 0.0], [2.0, 3.0]],
        [[0.0], [1.0]],
    )


def test_memories_of_a_step_are_stored_together_as_each_by_itself() -> None:
    ring = np.array([[[1.0, 2.0], [np.nan, np.nan]], [[np.nan, 4.0], [5.0, 6.0]], [[7.0, 8.0], [9.0, 0.0]]])
    stepped = replace(STEPPED, columns={"W": np.where(ring[..., 0] > 6, np.nan, 1.5), "ring": ring})
    first, second, last = stepped.all()
    changed = replace(second, ids=("x", "y"))
    stored = encode_all([last, changed, first])
    assert [each["ids"] for each in stored] == [["e", "f"], ["x", "y"], ["a", "b"]]
    assert [each["columns"] for each in stored] == [
        {"W": [None, None], "ring": [[7.0, 8.0], [9.0, 0.0]]},
        {"W": [1.5, 1.5], "ring": [[None, 4.0], [5.0, 6.0]]},
        {"W": [1.5, 1.5], "ring": [[1.0, 2.0], None]},
    ]
    assert [each["scalars"] for each in stored] == [{"alert": 0.0}, {"alert": 1.0}, {"alert": 0.0}]
