"""Failures are charged to the server that fails alone, and not to all servers of a failing URL."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration


def serving(rig: "Rig", names: str, settings: str, servers: str = "}") -> tuple[list["Backend"], "Edge"]:
    """Start servers of equal weight, and an nginx in front of them."""
    made = [rig.backend(name) for name in names]
    rig.publish([(one.name, one.address, 1, "up") for one in made], generation=1)
    edge = rig.edge(options=f"upstreams = {{ web = {{ {settings} }} }},", servers=servers)
    edge.wait_for(1)
    return made, edge


def test_a_server_whose_tries_all_fail_is_ejected_though_they_are_too_few_for_a_window(rig: "Rig") -> None:
    (_, b, _), edge = serving(
        rig, "abc", "eject = { interval_s = 0.1, requests = 1000000, consecutive = 5, base_s = 60 }"
    )
    b.statuses["/"] = 500
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "ejected", "it is ejected")
    assert " tries in a row failed, and 0 of " in edge.peer("b")["health_reason"]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Yield an event for servers to wait for; it is set at the end of the test."""
    gate = threading.Event()
    yield gate
    gate.set()


IMPATIENT = """
    location /report { proxy_read_timeout 100ms; proxy_pass http://web; }
    location /page { proxy_read_timeout 100ms; proxy_pass http://web; }
}"""


def test_a_url_that_no_server_answers_takes_no_server_out(rig: "Rig", never: threading.Event) -> None:
    made, edge = serving(rig, "abcd", "max_fails = 3, fail_timeout_s = 60, eject = false", IMPATIENT)
    for one in made:
        one.holds["/report"] = never
    assert [edge.get(f"/report?{n}").status for n in range(6)] == [504] * 6  # three tries each: 4.5 a server
    assert edge.get("/").status == 200
    assert {row["health"] for row in edge.upstream()["peers"]} == {"ok"}
    # A server that does not answer where others do is out after three tries, of any URL.
    made[0].holds["/page"] = never
    rig.wait_until(
        lambda: edge.get("/page").status == 200 and edge.peer("a")["health"] == "fails", "it is out"
    )
    assert edge.peer("a")["health_reason"] == "3 tries got no answer"
    assert edge.logged("is out for") == 1
