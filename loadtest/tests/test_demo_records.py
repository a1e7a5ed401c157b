"""What the demo reads: locust's requests and the controller's weights, whole, broken or absent."""

from pathlib import Path

import pytest
from steelyard_loadtest.demo.records import Observed, parse_weights, sent_within
from steelyard_loadtest.generators.recording import REQUESTS, Recording
from steelyard_loadtest.generators.tally import Request, of_status


def request(due_s: float, latency_ms: float = 1.0, server: str = "server-1", failure: str = "") -> Request:
    return Request(due_s=due_s, latency_ms=latency_ms, failure=failure, server=server)


def test_requests_are_in_the_order_of_sending_with_times_since_the_beginning() -> None:
    requests = [request(101.5, 20.0, "server-2"), request(100.5, 1500.0)]
    assert sent_within(requests, 100.0, 9.0) == (request(0.5, 1500.0), request(1.5, 20.0, "server-2"))


def test_what_was_sent_before_the_beginning_is_warm_up_and_left_out() -> None:
    assert [one.due_s for one in sent_within([request(99.9), request(100.0)], 100.0, 9.0)] == [0.0]


def test_what_was_sent_after_the_end_is_left_out() -> None:
    assert [one.due_s for one in sent_within([request(102.9), request(103.0)], 100.0, 3.0)] == [
        pytest.approx(2.9)
    ]


@pytest.mark.parametrize(
    "cut", ["", "101", "101.2,3", "101.2,3.1,a", "101.2,3.1,a,50", "101.2,x,a,", "a,b,c,d,e"]
)
def test_a_line_that_was_cut_off_is_left_out_and_the_others_are_kept(cut: str, tmp_path: Path) -> None:
    (tmp_path / REQUESTS).write_text(f"100.5,1.000,a,\n{cut}")
    assert Recording(tmp_path).read() == [request(100.5, server="a")]


def test_no_lines_no_requests(tmp_path: Path) -> None:
    assert Recording(tmp_path).read() == []
    (tmp_path / REQUESTS).write_text("")
    assert Recording(tmp_path).read() == []


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    for written in (request(1.0), request(2.0, failure="502")):
        with (tmp_path / REQUESTS).open("a") as lines:
            lines.write(f"{written.due_s},{written.latency_ms},{written.server},{written.failure}\n")
        assert recording.read() == [written]


@pytest.mark.parametrize(
    ("status", "failed"), [(200, False), (204, False), (302, False), (404, True), (502, True)]
)
def test_an_answer_that_is_no_success_is_a_failure(status: int, failed: bool) -> None:
    assert bool(of_status(status)) is failed


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
