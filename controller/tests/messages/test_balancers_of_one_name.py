"""Two programs of one name are noticed; a restart is no second program."""

from steelyard_controller.messages import balancers_of_one_name
from steelyard_controller.messages.balancers_of_one_name import SharedNames
from steelyard_protocol.balancer_runs import Run


def lines(text: str, upstream: str = "web", lb: str = "edge-1") -> list[Run]:
    """Return the runs of a text such as `a1 b1`: a boot of one letter, and a number."""
    return [Run(upstream, lb, word[0], int(word[1:])) for word in text.split()]


def after(*ticks: str) -> list[bool]:
    """Return for each tick, a second apart, whether the name is shared."""
    names, found = SharedNames(), []
    for now_s, text in enumerate(ticks):
        names = names.after(lines(text), now_s)
        found.append(bool(names.shared))
    return found


def test_two_programs_that_report_in_turn_share_a_name() -> None:
    assert after("a1 b1", "a1 b1 a2 b2", "a2 b2 a3", "b3 a4") == [False, False, True, True]
    assert after("a7 b1 a8 b2 a9") == [True]


def test_a_restart_is_no_second_program() -> None:
    assert not any(after("a1", "a1 a2", "a1 a2 b1", "a1 a2 b1 b2", "b2 b3", "b3 c1", "b3 c1 c2"))


def test_the_last_report_of_a_program_that_ends_is_no_second_program() -> None:
    assert not any(after("a1", "a1 b1", "a1 b1 a2", "a1 b1 a2 b2", "b2 b3", "b4"))


def test_lines_that_are_read_again_are_no_news() -> None:
    assert not any(after(*["a1 b1"] * 20))


def test_after_one_of_them_has_stopped_the_name_is_its_own_again() -> None:
    ticks = ["a1 b1 a2 b2 a3", *(f"a{n}" for n in range(4, 20))]
    found = after(*ticks)
    assert found == [tick <= balancers_of_one_name.LASTS_S for tick in range(len(ticks))]


def test_any_number_of_programs_of_one_name_share_it() -> None:
    names, programs = SharedNames(), 5 * balancers_of_one_name.MOST_RUNS
    for n in range(1, 5):
        names = names.after([Run("web", "edge-1", f"boot-{each}", n) for each in range(programs)], n)
    assert names.shared == ["edge-1"]
    ((_, only),) = names._names.items()
    assert len(only.runs) == balancers_of_one_name.MOST_RUNS


def test_programs_of_one_name_may_have_different_upstreams() -> None:
    names = SharedNames()
    for n in range(1, 5):
        names = names.after([*lines(f"a{n}"), *lines(f"b{n}", upstream="db")], n)
    assert names.fault is None


def test_the_fault_names_them_and_the_remedy() -> None:
    names = SharedNames()
    for lb in ("edge-2", "edge-1"):
        for upstream in ("web", "shop"):
            names = names.after(lines("a1 b1 a2 b2 a3", upstream, lb), 1.0)
    assert names.fault == (
        "two programs report as edge-1, edge-2, and the traffic of one is lost: give each Envoy its own"
        " --service-node, each nginx its own `lb`, each reporter its own --lb"
    )


def test_forged_lines_fill_no_memory() -> None:
    names = SharedNames().after(lines("a1 b1 a2 b2 a3"), 0.0)
    for n in range(3):
        forged = [Run(f"web-{n}-{m}", "edge-1", "a", 1) for m in range(balancers_of_one_name.MOST_REMEMBERED)]
        names = names.after(forged, 1.0)
    assert len(names._names) == balancers_of_one_name.MOST_REMEMBERED
    assert names.shared == ["edge-1"]
