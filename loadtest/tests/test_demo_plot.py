"""The demo's plot and its two files, from figures that nobody had to measure."""

import json
import math
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from steelyard_loadtest.demo.phase_figures import summary, thirds
from steelyard_loadtest.demo.plot import BURNED, observations, plot, server_styles
from steelyard_loadtest.demo.records import Observed, Phase
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.reporting.plot_style import gaps
from steelyard_loadtest.reporting.result_files import write_json

SERVERS = ("server-1", "server-2", "server-3")
STEELYARD = Phase(
    name="steelyard",
    title="Steelyard",
    planned_s=9.0,
    measured_s=9.0,
    burn=(3.0, 6.0),
    sent=tuple(
        Request(
            due_s=number / 20,
            latency_ms=2.0 + number % 7,
            failure="502" if number % 50 == 49 else "",
            server=SERVERS[number % 3],
        )
        for number in range(180)
    ),
    observed=tuple(
        Observed(t_s=float(second), server=server, weight_share=1 / 3, cpu_utilization=0.5 + second / 20)
        for second in range(9)
        for server in SERVERS
    ),
)
EQUAL = replace(STEELYARD, name="equal", title="Equal static weights")


def bare(phase: Phase) -> Phase:
    """A phase of which nothing is known but that it went on."""
    return replace(phase, sent=(), observed=(), burn=None)


@pytest.mark.parametrize(
    "phases",
    [
        (STEELYARD, EQUAL),
        (bare(STEELYARD), EQUAL),
        (replace(STEELYARD, measured_s=2.5, burn=None),),
        (replace(STEELYARD, measured_s=0.5, burn=None),),
        (
            replace(
                STEELYARD,
                sent=tuple(replace(entry, failure="timeout", server="") for entry in STEELYARD.sent),
            ),
        ),
    ],
    ids=["both", "the first is empty", "interrupted early", "interrupted at once", "all failed"],
)
def test_whatever_was_measured_becomes_a_png(tmp_path: Path, phases: tuple[Phase, ...]) -> None:
    file = tmp_path / "demo.png"
    plot(file, phases, SERVERS, "server-1")
    picture = file.read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture[16:20]) > 600  # pixels wide
    assert len(picture) > 20_000
    assert plt.get_fignums() == []


def test_drawing_needs_no_window() -> None:
    assert mpl.get_backend().lower() == "agg"


def test_the_burned_server_has_its_own_colour_and_the_others_differ() -> None:
    styles = server_styles(SERVERS, "server-2")
    assert [server for server, style in styles.items() if style["color"] == BURNED] == ["server-2"]
    assert len({(style["color"], style["linestyle"]) for style in styles.values()}) == 3


def test_more_servers_than_colours_all_have_a_style() -> None:
    many = [f"server-{number}" for number in range(20)]
    assert set(server_styles(many, "server-0")) == set(many)


def test_the_unknown_is_a_gap() -> None:
    drawn = gaps([0.0, 1.0, 2.0], [1.0, None, 2.0])[1]
    assert (drawn[0], math.isnan(drawn[1]), drawn[2]) == (1.0, True, 2.0)


def test_a_hole_between_observations_is_a_gap_and_one_late_observation_is_not() -> None:
    observed = [
        Observed(t_s=t_s, server="server-1", weight_share=t_s / 10, cpu_utilization=None)
        for t_s in (0.0, 1.0, 2.2, 6.0)
    ]
    line = observations(observed, "server-1", lambda entry: entry.weight_share)
    times, values = gaps(line.x, line.y, line.gap)
    assert times == [0.0, 1.0, 2.2, 2.2, 6.0]
    assert values[:3] == [0.0, 0.1, pytest.approx(0.22)]
    assert math.isnan(values[3])
    nothing = observations(observed, "server-2", lambda entry: entry.weight_share)
    assert (nothing.x, nothing.y) == ([], [])


def test_the_summary_holds_conditions_burn_and_thirds_and_is_plain_json(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    phases = (STEELYARD, bare(EQUAL))
    third = {phase.name: thirds(phase, SERVERS) for phase in phases}
    write_json(file, summary({"rate_per_s": 20}, phases, third))
    document = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert document["rate_per_s"] == 20
    steelyard, equal = document["phases"]
    assert (steelyard["burn_s"], equal["burn_s"]) == ([3.0, 6.0], None)
    assert list(steelyard["thirds"]) == ["before", "burning", "after"]
    assert steelyard["thirds"]["burning"]["requests"] == 60
    assert equal["thirds"]["after"]["p99_ms"] is None
