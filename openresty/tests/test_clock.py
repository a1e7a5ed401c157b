"""nginx on a machine whose clock is stepped: tables and servers follow another clock."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig
from openresty.tests.test_share_in_flight import BALANCERS

pytestmark = pytest.mark.integration

HOUR_S, DAY_S = 3600, 86400
FAKETIME = {
    "FAKETIME_CACHE_DURATION": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_DISABLE_SHM": "1",
}


class Clock:
    """The time of day for programs that start meanwhile."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        libraries = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1")]
        assert libraries, "libfaketime is not installed: run `make setup-tests`"
        self._file = file
        self.step(0)
        monkeypatch.setenv("LD_PRELOAD", str(libraries[0]))
        monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(file))
        for name, value in FAKETIME.items():
            monkeypatch.setenv(name, value)
        self.env = "".join(f"env {name};" for name in ("LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE", *FAKETIME))

    def step(self, seconds: int) -> None:
        """Set it at this distance from the true time, at once."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        fresh.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(tmp_path / "clock", monkeypatch)


def time_of_day(edge: Edge) -> float:
    return parsedate_to_datetime(edge.get().headers["Date"]).timestamp()


@pytest.mark.parametrize("seconds", [-HOUR_S, HOUR_S])
def test_a_stepped_clock_makes_no_table_older_or_newer(rig: Rig, clock: Clock, seconds: int) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(options="hold_s = 300,", main=clock.env)
    edge.wait_for(1)
    clock.step(seconds)
    rig.wait_until(lambda: abs(time_of_day(edge) - time.time()) > HOUR_S / 2, "its clock is stepped")
    rig.wait_until(lambda: edge.upstream()["rung"] != "fresh", "the table is seen to be no new one")
    assert edge.upstream()["rung"] == "hold"
    assert 0 <= edge.upstream()["age_s"] < 300


# Each upstream is at another stage when the clock is stepped: its options.
STAGES = {
    "probed": "max_fails = 1, fail_timeout_s = 1, eject = false",
    "starting": "max_fails = 1, fail_timeout_s = 1, eject = false, slow_start_s = 4",
    "ejected": "max_fails = 0, eject = { interval_s = 0.2, requests = 3, base_s = 4 }",
    "failing": "max_fails = 0, eject = false",
    "waiting": "max_conns = 1, queue = { timeout_s = 4 }",
    "unlogged": "max_conns = 1, eject = false",
}
FULL = ("waiting", "unlogged")  # they have one server alone
LIMIT = """
      access_by_lua_block { require("steelyard").limit("waiting") }"""
WELL_S = 20  # after which a server that is well again must get requests, at each stage


def stages(rig: Rig, clock: Clock) -> Edge:
    """Start an nginx with an upstream for each stage, and the exchange."""
    upstreams, blocks, locations = "", "", ""
    for name, options in STAGES.items():
        upstreams += f"{name} = {{ {options} }}, "
        blocks += f"""
  upstream {name} {{
    server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("{name}") }}
  }}"""
        more = LIMIT if name == "waiting" else "log_by_lua_block { }" if name == "unlogged" else ""
        locations += f"location /{name} {{ proxy_pass http://{name}; {more} }}"
    options = f"share_in_flight = true, upstreams = {{ web = {{}}, {upstreams} }},"
    http = blocks + one_upstream(rig.memcached.port, options, f"{locations} }}")
    return rig.edge_of(http, main=clock.env)


def gets(edge: Edge, upstream: str, least: int) -> bool:
    """Tell whether the sick server answers `least` of ten requests, within WELL_S."""
    until = time.monotonic() + WELL_S
    while time.monotonic() < until:
        if sum(edge.get(f"/{upstream}").server == upstream for _ in range(10)) >= least:
            return True
    return False


@pytest.mark.parametrize("seconds", [-HOUR_S, HOUR_S, DAY_S])
def test_a_stepped_clock_keeps_no_server_out_at_any_stage(rig: Rig, clock: Clock, seconds: int) -> None:
    well, sick = rig.backend("well"), {name: rig.backend(name) for name in STAGES}
    for upstream in ("web", *STAGES):
        servers = [well] if upstream == "web" else [sick[upstream], *([] if upstream in FULL else [well])]
        peers = [(each.name, each.address, 10, "up") for each in servers]
        rig.publish(peers, generation=1, upstream=upstream, picker="vnswrr2", reporters=BALANCERS)
    edge = stages(rig, clock)
    for upstream in ("web", *STAGES):
        edge.wait_for(1, upstream=upstream)

    def is_in(upstream: str, health: str) -> None:
        def it_is() -> bool:
            edge.get(f"/{upstream}")
            return any(peer["health"] == health for peer in edge.upstream(upstream)["peers"])

        rig.wait_until(it_is, f"{upstream}: a server is {health}")

    opened = threading.Event()
    for name in ("ejected", "failing"):
        sick[name].statuses[f"/{name}"] = 500
    for name in ("probed", "starting"):
        sick[name].stop()
        is_in(name, "fails")
    with ThreadPoolExecutor(8) as clients:
        try:
            sick["waiting"].holds["/waiting"] = opened
            waiting = [clients.submit(edge.get, "/waiting")]
            rig.wait_until(lambda: sick["waiting"].received, "a request fills the server")
            sick["starting"].restart()
            assert gets(edge, "starting", 1)
            sick["probed"].holds["/probed"] = opened
            sick["probed"].restart()

            def is_probed() -> bool:
                clients.submit(edge.get, "/probed")
                return bool(sick["probed"].received)

            rig.wait_until(is_probed, "a probe is under way")
            is_in("ejected", "ejected")
            for _ in range(20):
                edge.get("/failing")
            waiting.append(clients.submit(edge.get, "/waiting"))
            edge.get("/unlogged")
            clock.step(seconds)
            rig.wait_until(lambda: abs(time_of_day(edge) - time.time()) > HOUR_S / 2, "its clock is stepped")
            refused = [waiting[1].result(timeout=WELL_S).status]
        finally:
            opened.set()
        assert waiting[0].result().status == 200
    for name in ("ejected", "failing"):
        sick[name].statuses.clear()
    assert refused == [503]
    assert {name for name in STAGES if not gets(edge, name, 3)} == set()
    rig.publish([("well", well.address, 10, "up")], generation=2, reporters=BALANCERS)
    edge.wait_for(2)
    about = edge.status()["share_in_flight"]
    assert (about["state"], about["errors"]) == ("alone", 0)
