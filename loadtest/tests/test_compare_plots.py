"""Places of texts in plots: events' names, values beside their marks, and figures of logarithmic axes."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.compare.page.plots.event_labels import CHARACTER_IN, Label, labels, placed
from steelyard_loadtest.compare.page.plots.p99 import BEFORE_IN, limits
from steelyard_loadtest.compare.page.plots.p99 import CHARACTER_IN as VALUE_CHARACTER_IN
from steelyard_loadtest.reporting.plot_style import LABEL_IN, LABELLED, labelled
from steelyard_loadtest.reporting.plots import Mark
from steelyard_loadtest.scenario.find import NAMES, find


def test_events_of_a_moment_have_one_label_in_words() -> None:
    assert labels(find("all-busy", quick=True)) == [(4.0, "all servers' CPU taken")]
    assert labels(find("cold-cache", quick=True)) == [
        (0.0, "server-4 leaves"), (8.0, "server-4's cache is empty"), (8.0, "server-4 joins"),
    ]  # fmt: skip
    assert labels(find("takeover", quick=True)) == [(6.0, "server-1 is replaced")]
    churn = find("churn", quick=True)
    first = churn.events[0]
    both = replace(churn, events=(first, replace(first, server="server-2")))
    assert labels(both) == [(first.at_s, f"{first.server} and server-2 leave")]


@pytest.mark.parametrize("name", NAMES)
def test_every_event_and_takeover_of_ours_is_named(name: str) -> None:
    scenario = find(name, quick=True)
    named = {label.at_s for label in labels(scenario)}
    assert named >= {event.at_s for event in scenario.events}
    assert named >= {server.takeover.at_s for server in scenario.servers if server.takeover}


@given(
    st.lists(
        st.builds(Label, st.floats(0, 20), st.text("server-1 leaves", min_size=1, max_size=25)), max_size=8
    )
)
def test_no_label_is_over_another_or_leaves_the_panel(wanted: list[Label]) -> None:
    second_in = 2.5 / 20
    ends = []
    for label in placed(wanted, 20, 2.5):
        left_s = label.x_s - label.to_the_left * len(label.text) * CHARACTER_IN / second_in
        ends.append((label.row, left_s, left_s + len(label.text) * CHARACTER_IN / second_in))
    assert all(left_s >= -1e-9 and right_s <= 20 + 1e-9 for _, left_s, right_s in ends)
    for (row, _, end), (below, start, _) in zip(sorted(ends), sorted(ends)[1:], strict=False):
        assert row != below or end <= start


@pytest.mark.parametrize("lowest", [0.0, 2.0])
def test_each_value_fits_between_its_mark_and_the_panel_s_end(lowest: float) -> None:
    marks = [
        Mark(value=40, text="40.0"), Mark(value=9000, high=15_000, text="15,550 ± 2,400  † 0.9 %"),
    ]  # fmt: skip
    begin, end = limits(marks, lowest, 15_000, 2.4)
    place = math.log if lowest else float
    for mark in marks:
        right_in = (place(mark.high or mark.value) - place(begin)) / (place(end) - place(begin)) * 2.4
        assert right_in + BEFORE_IN + len(mark.text) * VALUE_CHARACTER_IN <= 2.4 + 1e-9


def test_figures_of_a_logarithmic_axis_do_not_touch() -> None:
    assert labelled(1.0, 2.4, LABEL_IN["x"]) == (1, 2, 5)
    assert labelled(2.2, 2.4, LABEL_IN["x"]) == (1, 3)
    assert labelled(3.5, 2.4, LABEL_IN["x"]) == (1,)
    for decades in (0.5, 1.0, 2.0, 4.0):
        figures = labelled(decades, 2.4, LABEL_IN["x"])
        apart = dict(LABELLED)[figures]
        assert apart / decades * 2.4 >= LABEL_IN["x"]
