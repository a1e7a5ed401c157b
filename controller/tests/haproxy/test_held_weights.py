"""Small changes of a weight wait, and each server's for a time of its own."""

from steelyard_controller.haproxy.held_weights import NEAR_ENOUGH_S, HeldWeights


def test_a_small_change_waits_and_a_large_one_does_not() -> None:
    held = HeldWeights(lambda: 0.0)
    assert held.next({"a": 100, "b": 100}, 0.0) == {"a": 100, "b": 100}
    assert held.next({"a": 104, "b": 90}, 1.0) == {"a": 100, "b": 90}
    assert held.next({"a": 104, "b": 90}, NEAR_ENOUGH_S) == {"a": 104, "b": 90}
    # The large change began b's time anew.
    assert held.next({"a": 104, "b": 91}, NEAR_ENOUGH_S) == {"a": 104, "b": 90}
    assert held.next({"a": 104, "b": 91}, NEAR_ENOUGH_S + 1.0) == {"a": 104, "b": 91}


def test_small_steps_in_one_direction_add_up() -> None:
    held = HeldWeights(lambda: 0.0)
    answers = [held.next({"a": 100 + step}, step / 10)["a"] for step in range(8)]
    assert answers == [100, 100, 100, 100, 100, 100, 106, 106]


def test_servers_of_one_change_take_the_next_one_apart() -> None:
    times = iter([0.0, 0.5, 0.9, 0.0, 0.0, 0.0])
    held = HeldWeights(lambda: next(times))
    held.next(dict.fromkeys("abc", 100), 0.0)
    seen = [held.next(dict.fromkeys("abc", 102), NEAR_ENOUGH_S + extra) for extra in (0.0, 5.0, 9.0)]
    assert [sorted(name for name, weight in each.items() if weight == 102) for each in seen] == [
        ["a"],
        ["a", "b"],
        ["a", "b", "c"],
    ]


def test_a_server_that_left_is_new_when_it_comes_back() -> None:
    held = HeldWeights(lambda: 0.0)
    held.next({"a": 100, "b": 100}, 0.0)
    held.next({"a": 100}, 1.0)
    assert held.next({"a": 100, "b": 102}, 2.0) == {"a": 100, "b": 102}
