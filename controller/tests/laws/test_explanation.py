"""The sentences of explanations, literally, because people will search for them."""

import json
from collections import Counter
from dataclasses import asdict, replace
from typing import ClassVar

import pytest
from steelyard_controller import laws
from steelyard_controller.laws.explanation import explain, sentence_writer
from steelyard_controller.laws.snapshot import Floats, Snapshot

from .snapshots import snapshot, steps

WARM = 60


def sentence(law: str, *snapshots: Snapshot, peer: int = 0, **parameters: float) -> str:
    _, decision = steps(laws.create(law, parameters), snapshots)
    return explain(decision, peer).sentence


def test_every_figure_of_a_weight_is_there_and_json_can_hold_it() -> None:
    _, decision = steps(laws.create("steelyard"), [snapshot(cpu=(1.1, None, 0.4))] * 3)
    explanation = explain(decision, 1)
    document = json.loads(json.dumps(asdict(explanation), allow_nan=False))
    assert document["id"] == "b"
    assert document["figures"]["utilization_cpu"] is None
    assert document["score"] is None
    assert set(document["entropy_weights"]) == {"cpu", "net", "io", "mem"}
    assert document["parameters"]["H"] == 0.3
    wanted = (
        *("sample_age_ticks", "report_age_ticks", "completed", "failed", "in_flight", "latency_s"),
        *("residual_cpu", "smoothed_cpu", "evidence_requests", "evidence_busy_s", "prior_share"),
        *("restarts", "backlog", "slow", "err", "join", "weight_before", "backlog_s", "z", "hot"),
    )
    assert set(wanted) <= set(document["figures"])


def test_the_clamps_that_were_hit_are_named() -> None:
    fast = snapshot(cpu=(0.01, 1.2, 1.0), completed=(10_000, 1, 1), in_flight=0)
    _, decision = steps(laws.create("steelyard"), [fast] * WARM)
    assert explain(decision, 1).clamps == ("residual", "floor")
    assert "held at the floor of 2 % of the baseline" in explain(decision, 1).sentence


def test_the_weight_before_is_the_last_answer() -> None:
    law = laws.create("steelyard")
    memory, first = steps(law, [snapshot(cpu=(0.8, 0.4, 0.4))] * 10)
    _, second = steps(law, [snapshot(cpu=(0.9, 0.4, 0.4))], memory)
    assert explain(second, 0).weight_before == first.weights[0]
    assert explain(first, 0).weight_before is not None


def test_capacity_baseline_and_prior() -> None:
    # 100 requests at 0.5 busy, a third of S each.
    assert sentence("steelyard", *[snapshot()] * WARM) == (
        "334: does 200 requests per busy second, from 2637 observed requests"
    )


def test_figures_of_all_peers_are_computed_once_for_all_sentences() -> None:
    class Counted(dict[str, Floats]):
        asked: ClassVar[Counter[str]] = Counter()

        def __getitem__(self, name: str) -> Floats:
            self.asked[name] += 1
            return super().__getitem__(name)

    _, decision = steps(laws.create("steelyard"), [snapshot()] * 3)
    write = sentence_writer(replace(decision, columns=Counted(decision.columns)))
    assert [write(peer) for peer in range(3)] == [explain(decision, peer).sentence for peer in range(3)]
    assert Counted.asked["eligible"] == 1


def test_a_backlog() -> None:
    text = sentence("steelyard", *[snapshot(cpu=0.9)] * WARM, snapshot(cpu=0.9, in_flight=(100, 1, 1)))
    assert text == (
        "268: does 111 requests per busy second, from 2651 observed requests, "
        "20 % taken off for a backlog of 0.6 s above the mean"
    )


def test_less_backlog_than_the_others() -> None:
    text = sentence(
        "steelyard", *[snapshot(cpu=0.9)] * WARM, snapshot(cpu=0.9, in_flight=(100, 1, 1)), peer=1
    )
    assert text.endswith("10 % added for a backlog of 0.3 s below the mean")


def test_slowness_and_failures() -> None:
    slow = snapshot(cpu=0.1, latency_s=(2.0, 0.01, 0.01), in_flight=0)
    assert "taken off because it answers slower than its load explains" in sentence("steelyard", *[slow] * 30)
    failing = snapshot(completed=(50, 100, 100), failed=(50, 0, 0))
    assert "taken off because it fails more than the others" in sentence("steelyard", *[failing] * 30)


def test_a_step_in_speed() -> None:
    slower = snapshot(cpu=(1.0, 0.5, 0.5), latency_s=(0.5, 0.01, 0.01))
    text = sentence("steelyard", *[snapshot()] * WARM, slower)
    assert text.endswith("its speed has just changed, so earlier evidence is discarded")


def test_others_load_is_in_the_sentence() -> None:
    neighbour = snapshot(cpu=(0.45, 0.5, 0.5), completed=(10, 100, 100))
    text = sentence("steelyard", *[snapshot()] * WARM, neighbour)
    assert "while something else takes 32 % of the server" in text


def test_no_sample_yet() -> None:
    text = sentence("steelyard", snapshot(cpu=(None, 0.5, 0.5), completed=(None, 100, 100), in_flight=0))
    assert "no sample yet, so it gets its baseline 333" in text


def test_a_sample_that_is_missing_now() -> None:
    text = sentence("steelyard", *[snapshot()] * WARM, snapshot(cpu=(None, 0.5, 0.5)))
    assert text.endswith("without a sample for 1 tick")


def test_no_traffic() -> None:
    idle = snapshot(cpu=0.0, completed=0, in_flight=0, latency_s=None)
    assert sentence("steelyard", *[idle] * WARM) == (
        "334: no recent work shows its capacity, so it gets its baseline 333"
    )


def test_a_capacity_that_is_remembered_without_recent_traffic() -> None:
    busy, idle = (
        snapshot(completed=(100, 50, 50)),
        snapshot(cpu=0.0, completed=0, in_flight=0, latency_s=None),
    )
    text = sentence("steelyard", *[busy] * WARM, *[idle] * 300)
    assert "remembered from earlier requests" in text
    assert "baseline" not in text


def test_reports_that_stopped() -> None:
    silent = snapshot(completed=None, failed=None, in_flight=None, latency_s=None)
    assert sentence("steelyard", *[snapshot()] * WARM, silent, silent).endswith(
        "without a traffic report for 2 ticks"
    )


def test_slow_start() -> None:
    text = sentence("steelyard", *[snapshot()] * WARM, *[snapshot(ids="abcd")] * 15, peer=3)
    assert text.endswith("held to 50 % by slow start")


def test_slow_start_of_all_servers_holds_none_of_them() -> None:
    assert "slow start" not in sentence("steelyard", snapshot())


@pytest.mark.parametrize("law", laws.NAMES)
def test_leaving_pinned_and_out_of_service_read_the_same_under_every_law(law: str) -> None:
    assert sentence(law, snapshot(leaving="a", cpu=(None, 0.5, 0.5))) == (
        "10: its agent reported that the server is stopping, so it gets a fiftieth of its baseline 333"
    )
    assert sentence(law, snapshot(pinned=(400, None, None))) == "400: pinned to 40 % by a person"
    assert sentence(law, snapshot(pinned=(3000, 1000, None))) == (
        "749: pinned to 300 % by a person, scaled so that the pins leave every other server at least 1"
    )
    assert sentence(law, snapshot(eligible="bc")).endswith(
        "out of service now: the weight is kept for its return, and nothing is learnt"
    )


def test_raised_to_the_smallest_weight() -> None:
    text = sentence("static", snapshot(baseline=(1, 1e6, 1e6)))
    assert text == ("1: its baseline, which the law static keeps, raised to 1, the smallest weight")


def test_paper_high_low_between_and_calm() -> None:
    rows = [[0.95, 0.2, 0.1, 0.3], [0.35, 0.2, 0.1, 0.3], [0.1, 0.2, 0.1, 0.3]]
    high = snapshot(utilization=rows)
    assert sentence("paper", high, H=0.3, L=0.8) == (
        "20: score 0.05 is at most H = 0.3 (high load): "
        "3 % of all scores times baseline 333, scaled so that all weights sum to 1000"
    )
    assert sentence("paper", high, H=0.3, L=0.8, peer=1).endswith(
        "score 0.65 is between H and L: baseline 333, scaled so that all weights sum to 1000"
    )
    assert sentence("paper", high, H=0.3, L=0.8, peer=2).endswith(
        "score 0.90 is at least L = 0.8 (low load) while another is overloaded: "
        "56 % of all scores times baseline 333, scaled so that all weights sum to 1000"
    )
    assert sentence("paper", snapshot()) == (
        "334: no score is at most H = 0.3, so it returns to its baseline 333"
    )
    assert sentence("paper", snapshot(cpu=(None, 0.5, 0.5))) == (
        "334: no sample to judge it by, so it gets its baseline 333"
    )


def test_cswrr_own_median_blackout_expired_and_alone() -> None:
    uneven = snapshot(ids="abcd", cpu=(0.9, 0.3, 0.3, 0.3))
    silent = snapshot(ids="abcd", cpu=(None, 0.3, 0.3, 0.3))
    assert sentence("cswrr", uneven, blackout=0) == "100: serves 111 requests per unit of utilization"
    assert sentence("cswrr", silent, blackout=0) == (
        "250: has not reported yet, so it gets the median of the others, 333 requests per unit of utilization"
    )
    joined = snapshot(ids="abcde", cpu=(0.9, 0.3, 0.3, 0.3, 0.1))
    assert "its reports are only watched for another 9.0 s, so it gets the median" in sentence(
        "cswrr", *[uneven] * 20, *[joined] * 2, peer=4
    )
    assert "its last report has expired, so it gets the median" in sentence(
        "cswrr", uneven, *[silent] * 5, blackout=0, expiration=5
    )
    assert sentence("cswrr", snapshot(ids="a"), blackout=0) == (
        "1000: fewer than two servers have a weight of their own, so it gets its baseline 1000"
    )
    failing = snapshot(completed=(80, 100, 100), failed=(20, 0, 0))
    assert sentence("cswrr", failing, blackout=0).endswith(
        "with 20 failures per second counted as utilization"
    )
