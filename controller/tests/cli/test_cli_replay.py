"""`steelyard replay`: an interface. Its keys, its parameters, and its answer to a malformed line."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller import laws
from steelyard_controller.cli import main, replay_lines

from ..laws.snapshots import figures, golden

KEYS = ["t_s", "alert", "entropy_weights", "score", "capacity_estimate", "weights", "published"]
PAPER_KEYS = ["normalized", "proportions", "entropy", "baseline_weights", "shares"]
INDICATORS = ["cpu", "net", "io", "mem"]


def peer(name: str = "a", **changes: Any) -> dict[str, Any]:
    """Return a peer of a line."""
    return {
        "id": name,
        "utilization": [0.5, 0.1, 0.0, 0.2],
        "sample_age_ticks": 0,
        "capacity": [2.0, 1.0, 1.0, 1.0],
        "baseline": None,
        "completed": 100,
        "failed": 0,
        "in_flight": 1,
        "latency_s": 0.01,
        **changes,
    }


def line(*peers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a line of input."""
    given = list(peers) or [peer("a"), peer("b")]
    return {"t_s": 1.0, "indicators": INDICATORS, "report_age_ticks": 0, "peers": given, **changes}


def golden_lines(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a case of golden/law.json as lines of input."""
    lines = []
    for number, tick in enumerate(case["ticks"]):
        rows = []
        for j, capacity in enumerate(case["capacity"]):
            sample = tick["utilization"][j]
            row = {
                "utilization": sample if sample and sample[0] is not None else None,
                "sample_age_ticks": tick["sample_age_ticks"][j],
                "capacity": capacity,
                "baseline": case["baseline_shares"][j],
            }
            for key in ("completed", "failed", "in_flight", "latency_s"):
                row[key] = None if tick[key] is None else tick[key][j]
            rows.append(peer(f"server-{j}", **row))
        lines.append(line(*rows, t_s=number + 1.0, report_age_ticks=case["report_age_ticks"]))
    return lines


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str


def steelyard(*arguments: str, lines: str | list[Any] = "") -> Ran:
    """Run the command in this process."""
    if isinstance(lines, list):
        lines = "".join(each if isinstance(each, str) else f"{json.dumps(each)}\n" for each in lines)
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as process,
    ):
        process.setattr(sys, "stdin", io.StringIO(lines))
        status = main(arguments)
    return Ran(status, out.getvalue(), err.getvalue())


def steelyard_with(stdin: bytes) -> Ran:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "steelyard_controller.cli", "replay", "--law", "static"]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("case", golden("law"), ids=lambda case: case["name"])
def test_replay_reproduces_the_golden_law(case: dict[str, Any]) -> None:
    done = steelyard("replay", "--law", "steelyard", lines=golden_lines(case))
    assert (done.returncode, done.stderr) == (0, "")
    decisions = [json.loads(each) for each in done.stdout.splitlines()]
    assert len(decisions) == len(case["ticks"])
    for number, (decision, tick) in enumerate(zip(decisions, case["ticks"], strict=True)):
        assert list(decision) == KEYS
        assert decision["t_s"] == number + 1.0
        assert decision["alert"] == tick["alert"]
        for key in ("entropy_weights", "score", "capacity_estimate", "weights"):
            k = len(tick[key])
            value, expected = figures(decision[key], k), figures(tick[key], k)
            np.testing.assert_allclose(value, expected, rtol=2.1e-9, atol=1e-9, err_msg=f"{number} {key}")
        assert decision["published"] == tick["quantized"]


def test_the_law_paper_also_writes_its_equations_by_row() -> None:
    lines, expected = [], golden("equations")
    for number, case in enumerate(expected):
        rows = zip(case["utilization"], case["capacity"], strict=True)
        peers = [peer(f"{number}-{j}", utilization=used, capacity=has) for j, (used, has) in enumerate(rows)]
        lines.append(line(*peers, t_s=number + 1.0))
    done = steelyard("replay", "--law", "paper", lines=lines)
    assert (done.returncode, done.stderr) == (0, "")
    for text, case in zip(done.stdout.splitlines(), expected, strict=True):
        decision = json.loads(text)
        assert list(decision)[: len(KEYS) + len(PAPER_KEYS)] == KEYS + PAPER_KEYS
        if (case["H"], case["L"]) == (0.3, 0.4):
            for key in ("entropy_weights", "score", *PAPER_KEYS):
                np.testing.assert_allclose(decision[key], case[key], rtol=1e-9, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("law", laws.NAMES)
def test_every_law_writes_the_same_keys(law: str) -> None:
    done = steelyard("replay", "--law", law, lines=[line()])
    assert list(json.loads(done.stdout))[: len(KEYS)] == KEYS


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        ("{", "not JSON: "),
        ("[]", "Expected `object`, got `array`"),
        ('{"t_s": NaN}', "not JSON: "),
        (json.dumps(line())[:-1] + ', "t_s": 2}', "'t_s' occurs twice in one object: leave one out"),
        (
            json.dumps(line()).replace('"id": "a"', '"id": "b", "id": "a"', 1),
            "'id' occurs twice in one object",
        ),
        ('{"t_s": ' + "[" * 100_000, "Expected `float`, got `array` - at `$.t_s`"),
        (line(t_s="x"), "Expected `float`, got `str` - at `$.t_s`"),
        (line(t_s=True), "Expected `float`, got `bool` - at `$.t_s`"),
        (line(indicators=["cpu"]), "\"utilization\" of peer 'a' is not a list of 1 numbers"),
        (line(indicators=[]), "Expected `array` of length >= 1 - at `$.indicators`"),
        (line(indicators="cpu"), "Expected `array`, got `str` - at `$.indicators`"),
        (line(indicators=["cpu", 1, "io", "mem"]), "Expected `str`, got `int` - at `$.indicators[1]`"),
        (line(indicators=["cpu", "cpu", "io", "mem"]), '"indicators" names one twice'),
        (line(indicators=["cpu", "net", "io", "Mem"]), "\"indicators\" has 'Mem'; a name is "),
        (line(knees=[0.5]), "Expected `object`, got `array` - at `$.knees`"),
        (line(knees={"workers": 0.5}), '"knees" has \'workers\', which is not among "indicators"'),
        (line(knees={"mem": 1.0}), "the knee of mem is outside 0..0.99"),
        (line(report_age_ticks=-1), "Expected `int` >= 0 - at `$.report_age_ticks`"),
        (line(report_age_ticks=0.5), "Expected `int`, got `float` - at `$.report_age_ticks`"),
        (line(peers=[]), "Expected `array` of length >= 1 - at `$.peers`"),
        (line(peers=[1]), "Expected `object`, got `int` - at `$.peers[0]`"),
        (line(peer("a"), peer("a")), "two peers have the same id"),
        (line(peer("")), "Expected `str` of length >= 1 - at `$.peers[0].id`"),
        (line({"id": "a"}), "Object missing required field `utilization` - at `$.peers[0]`"),
        (line(peer(utilization=[0.1])), "\"utilization\" of peer 'a' is not a list of 4 numbers"),
        (line(peer(utilization=[-1, 0, 0, 0])), "Expected `float` >= 0.0 - at `$.peers[0].utilization[0]`"),
        (line(peer(capacity=None)), "Expected `array`, got `null` - at `$.peers[0].capacity`"),
        (line(peer(completed=-5)), "Expected `float` >= 0.0 - at `$.peers[0].completed`"),
        (line(peer(completed=10**400)), "Number out of range - at `$.peers[0].completed`"),
        (line(peer(latency_s="fast")), "Expected `float | null`, got `str` - at `$.peers[0].latency_s`"),
        (line(peer(baseline=0)), "Expected `float` >= 1e-15 - at `$.peers[0].baseline`"),
        (line(peer(leaving=1)), "Expected `bool`, got `int` - at `$.peers[0].leaving`"),
    ],
)
def test_a_malformed_line_says_what_is_wrong(bad: object, wrong: str) -> None:
    with pytest.raises(replay_lines.Malformed) as caught:
        replay_lines.parse(bad if isinstance(bad, str) else json.dumps(bad))
    assert str(caught.value).startswith(wrong)


def test_a_malformed_line_is_named_by_its_number_and_nothing_is_written_for_it() -> None:
    lines = [line(), "\n", line(t_s=2.0), "{nonsense\n", line(t_s=3.0)]
    done = steelyard("replay", "--law", "steelyard", lines=lines)
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.startswith("steelyard replay: line 4: not JSON: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_line_that_is_not_text_is_malformed() -> None:
    done = steelyard_with(b"\xff\xfe\x00\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("steelyard replay: line 1: not JSON: ")


def test_no_lines_no_decisions() -> None:
    assert steelyard_with(b"") == Ran(0, "", "")


def test_the_order_of_the_arrays_is_that_of_the_peers_in_the_line() -> None:
    first = line(peer("a", baseline=1), peer("b", baseline=3))
    second = line(peer("b", baseline=3), peer("a", baseline=1), t_s=2.0)
    done = steelyard("replay", "--law", "static", lines=[first, second])
    assert [json.loads(each)["published"] for each in done.stdout.splitlines()] == [[250, 750], [750, 250]]


def test_the_columns_of_indicators_may_come_in_any_order() -> None:
    mixed = line(peer(utilization=[0.2, 0.9, 0.3, 0.1]), indicators=["mem", "cpu", "io", "net"])
    assert replay_lines.parse(json.dumps(mixed)).utilization.tolist() == [[0.9, 0.1, 0.3, 0.2]]


def test_further_indicators_and_knees_are_read_and_named_in_the_answer() -> None:
    mixed = line(
        peer("a", utilization=[0.9, 0.2, 0.4], capacity=[None, 8.0, 2.0]),
        peer("b", utilization=[None, 0.2, 0.4], capacity=[None, 8.0, 2.0]),
        indicators=["workers", "mem", "cpu"],
        knees={"workers": 0.5},
    )
    snapshot = replay_lines.parse(json.dumps(mixed))
    assert snapshot.indicators == ("cpu", "mem", "workers")
    assert snapshot.utilization[0].tolist() == [0.4, 0.2, 0.9]
    assert np.isnan(snapshot.utilization[1, 2])
    assert np.isnan(snapshot.knees[:2]).all()
    assert snapshot.knees[2] == 0.5
    assert snapshot.capacity[0, [0, 3]].tolist() == [2.0, 8.0]
    assert np.isnan(snapshot.capacity[:, [1, 2]]).all()
    for law in laws.NAMES:
        done = steelyard("replay", "--law", law, lines=[mixed, mixed])
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.splitlines()[1])
        assert answer["indicators"] == ["cpu", "mem", "workers"]
        assert len(answer["entropy_weights"]) == 3
        assert law != "paper" or np.shape(answer["normalized"]) == (2, 3)


def test_unknown_keys_are_ignored_and_optional_ones_are_read() -> None:
    snapshot = replay_lines.parse(json.dumps(line(peer(pinned=5, eligible=False, leaving=True, color="red"))))
    assert (snapshot.pinned[0], snapshot.eligible[0], snapshot.leaving[0]) == (5, False, True)


def test_the_length_of_a_tick_is_the_time_since_the_line_before() -> None:
    text = json.dumps(line(t_s=12.5))
    assert replay_lines.parse(text, previous_t_s=10.0).tick_s == 2.5
    assert replay_lines.parse(text).tick_s == 1.0
    assert replay_lines.parse(text, previous_t_s=99.0).tick_s == 1.0


def high_load(**changes: Any) -> list[Any]:
    return [line(peer("a", utilization=[0.6, 0.1, 0.0, 0.2]), peer("b"), **changes)]


def test_set_changes_a_parameter() -> None:
    done = steelyard("replay", "--law", "paper", "--set", "H=0.5", lines=high_load())
    assert json.loads(done.stdout)["alert"] is True
    done = steelyard("replay", "--law", "paper", lines=high_load())
    assert json.loads(done.stdout)["alert"] is False


@pytest.mark.parametrize("document", ["H: 0.5\n", "parameters:\n  H: 0.5\n", '{"H": 0.5}'])
def test_config_is_a_file_of_parameters_and_set_is_stronger(tmp_path: Path, document: str) -> None:
    config = tmp_path / "law.yaml"
    config.write_text(document)
    done = steelyard("replay", "--law", "paper", "--config", str(config), lines=high_load())
    assert json.loads(done.stdout)["alert"] is True
    done = steelyard("replay", "--law", "paper", "--config", str(config), "--set", "H=0.3", lines=high_load())
    assert json.loads(done.stdout)["alert"] is False


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--set", "H"], "steelyard: --set H: give NAME=NUMBER, such as --set H=0.5"),
        (["--set", "H=high"], "steelyard: --set H=high: give NAME=NUMBER"),
        (["--set", "Q=1"], "steelyard: law steelyard has no parameter 'Q'"),
        (["--config", "/nonexistent"], "steelyard: --config /nonexistent cannot be read: "),
    ],
)
def test_wrong_arguments_are_named_with_status_2(arguments: list[str], wrong: str) -> None:
    done = steelyard("replay", "--law", "steelyard", *arguments, lines=[line()])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(wrong)


def test_plot_draws_it(tmp_path: Path) -> None:
    picture = tmp_path / "replay.png"
    lines = [line(t_s=float(tick)) for tick in range(1, 6)]
    done = steelyard("replay", "--law", "steelyard", "--plot", str(picture), lines=lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 5
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written_is_an_error_after_the_decisions(tmp_path: Path) -> None:
    picture = tmp_path / "replay.nonesuch"
    done = steelyard("replay", "--law", "static", "--plot", str(picture), lines=[line()])
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.startswith(f"steelyard: --plot {picture}: ")
    assert plt.get_fignums() == []


def test_laws_lists_every_parameter_with_unit_default_and_reason() -> None:
    done = steelyard("laws")
    assert done.returncode == 0
    for name in laws.NAMES:
        assert f"\n{name}\n" in f"\n{done.stdout}"
        for each in laws.parameters_of(name):
            assert each.reason in done.stdout


def mutated(data: Callable[..., Any]) -> dict[str, Any]:
    document = line()
    holder = data(st.sampled_from([document, document["peers"][0]]))
    holder[data(st.sampled_from(sorted(holder)))] = data(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.floats())
    )
    return document


@given(st.data())
def test_parsing_is_total(data: st.DataObject) -> None:
    text = json.dumps(mutated(data.draw))
    try:
        snapshot = replay_lines.parse(text)
    except replay_lines.Malformed:
        return
    law = laws.create("steelyard")
    _, decision = law.step(law.start(), snapshot)
    assert json.loads(replay_lines.line_of(decision))["weights"]
