"""Servers report their requests in flight in their answers, and the next picks go by it."""

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

ANSWER_S = 0.1  # a report counts for about 24 times as long
ORCA = "endpoint-load-metrics"


def serving(rig: Rig, picker: str = "vnswrr2") -> tuple[Backend, Backend, Edge]:
    """Start two servers, and an nginx in front of them."""
    made = [rig.backend(name) for name in "ab"]
    for backend in made:
        backend.delays_s["/"] = ANSWER_S
    rig.publish([(each.name, each.address, 10, "up") for each in made], generation=1, picker=picker)
    edge = rig.edge()
    edge.wait_for(1)
    return made[0], made[1], edge


def busy(name: str, value: str, a: Backend, b: Backend) -> None:
    """Make `a` report 50 requests in flight, and `b` one."""
    a.headers[name] = value
    b.headers["X-Steelyard-In-Flight"] = "1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Steelyard-In-Flight", "50"),
        (ORCA, "TEXT cpu_utilization=0.3,named_metrics.in_flight=50"),
        (ORCA, 'JSON {"named_metrics": {"in_flight": 50}}'),
        (ORCA, "BIN QhQKCWluX2ZsaWdodBEAAAAAAABJQA=="),
    ],
    ids=["header", "text", "json", "binary"],
)
def test_the_next_requests_go_around_who_says_that_it_is_busy(rig: Rig, name: str, value: str) -> None:
    a, b, edge = serving(rig)
    assert edge.shares(10) == {"a": 5, "b": 5}
    busy(name, value, a, b)
    # A pick now and then, while the report fades. nginx looks for the header each 0.1 s until it finds one.
    rig.wait_until(lambda: edge.shares(10).get("a", 0) <= 3, "few requests go to it")
    a.headers.clear()
    b.headers.clear()
    rig.wait_until(lambda: edge.shares(6) == {"a": 3, "b": 3}, "what was said is forgotten")
    assert edge.status()["load_reports_malformed"] == 0


NO_NUMBERS = [
    *(("X-Steelyard-In-Flight", text) for text in ("", "much", "-5", "nan", "inf", "1e999", "0x7", "0b101")),
    (ORCA, "TEXT named_metrics.in_flight=" + "9" * 400),
    *((ORCA, f"BIN QhQKCWluX2ZsaWdodBEAAAAAAA{double}") for double in ("D4fw==", "DwfwA=", "AUwA==")),
]  # in binary: NaN, infinity, -5


def test_what_is_no_number_counts_as_nothing_and_later_reports_are_followed(rig: Rig) -> None:
    a, b, edge = serving(rig)
    for name, value in NO_NUMBERS:
        a.headers.clear()
        busy(name, value, a, b)
        assert edge.shares(2) == {"a": 1, "b": 1}, (name, value)
    a.headers.clear()
    busy("X-Steelyard-In-Flight", "50", a, b)
    rig.wait_until(lambda: edge.shares(10).get("a", 0) <= 3, "few requests go to it")


def test_a_picker_that_goes_by_weight_alone_does_not_mind(rig: Rig) -> None:
    a, b, edge = serving(rig, picker="vnswrr")
    busy("X-Steelyard-In-Flight", "50", a, b)
    assert edge.shares(10) == {"a": 5, "b": 5}
