"""What the demo reads: locust's lines and the controller's weights, whole, broken or absent."""

import pytest
from steelyard_loadtest.demo.records import Observed, Sent, parse_sent, parse_weights


def test_requests_are_read_in_the_order_of_sending_with_times_since_the_beginning() -> None:
    lines = ["101.5,20.000,200,server-2", "100.5,1500.000,200,server-1"]
    assert parse_sent(lines, 100.0) == (
        Sent(t_s=0.5, latency_ms=1500.0, status=200, server="server-1"),
        Sent(t_s=1.5, latency_ms=20.0, status=200, server="server-2"),
    )


def test_what_was_sent_before_the_beginning_is_warm_up_and_left_out() -> None:
    assert [entry.t_s for entry in parse_sent(["99.9,1,200,a", "100.0,1,200,a"], 100.0)] == [0.0]


@pytest.mark.parametrize(
    "cut", ["", "101", "101.2,3", "101.2,3.1,20", "101.2,3.1,,", "101.2,x,200,a", "a,b,c,d,e"]
)
def test_a_line_that_was_cut_off_is_left_out_and_the_others_are_kept(cut: str) -> None:
    assert len(parse_sent(["100.5,1.0,200,a", cut], 100.0)) == 1


def test_no_lines_no_requests() -> None:
    assert parse_sent([], 0.0) == ()


@pytest.mark.parametrize(
    ("status", "failed"), [(200, False), (204, False), (302, False), (0, True), (404, True), (502, True)]
)
def test_no_answer_or_one_that_is_no_success_is_a_failure(status: int, failed: bool) -> None:
    assert Sent(t_s=0, latency_ms=1, status=status, server="").failed is failed


def test_weights_are_read_as_parts_of_all_weights() -> None:
    document = {
        "peers": [
            {"id": "server-1", "weight": 250, "utilization": {"cpu": 0.5, "mem": 0.1}},
            {"id": "server-2", "weight": 750, "utilization": {"cpu": 1.2}},
        ]
    }
    assert parse_weights(document, 4.5) == (
        Observed(t_s=4.5, server="server-1", weight_share=0.25, cpu_utilization=0.5),
        Observed(t_s=4.5, server="server-2", weight_share=0.75, cpu_utilization=1.2),
    )


def test_a_weight_of_0_is_a_share_of_0_and_all_of_0_are_unknown() -> None:
    def shares(*weights: int) -> list[float | None]:
        peers = [{"id": f"server-{number}", "weight": weight} for number, weight in enumerate(weights)]
        return [entry.weight_share for entry in parse_weights({"peers": peers}, 0.0)]

    assert shares(0, 4) == [0.0, 1.0]
    assert shares(0, 0) == [None, None]


@pytest.mark.parametrize("weight", [None, "5", True, -1, float("nan"), float("inf"), [], {}])
def test_a_weight_that_is_no_number_is_unknown_and_spoils_no_other(weight: object) -> None:
    peers = [{"id": "server-1", "weight": weight}, {"id": "server-2", "weight": 3}]
    assert [entry.weight_share for entry in parse_weights({"peers": peers}, 0.0)] == [None, 1.0]


@pytest.mark.parametrize("utilization", [None, 0.5, [], {}, {"cpu": None}, {"cpu": "0.5"}, {"cpu": -0.1}])
def test_a_utilization_that_is_not_told_is_unknown(utilization: object) -> None:
    peers = [{"id": "server-1", "weight": 3, "utilization": utilization}]
    assert [entry.cpu_utilization for entry in parse_weights({"peers": peers}, 0.0)] == [None]


@pytest.mark.parametrize(
    "document", [None, [], "", 7, {}, {"peers": None}, {"peers": {}}, {"peers": [None, 1, {}, {"id": 3}]}]
)
def test_a_document_of_another_shape_has_no_observations(document: object) -> None:
    assert parse_weights(document, 0.0) == ()
