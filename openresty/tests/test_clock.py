"""nginx on a machine whose clock is stepped: tables and servers follow another clock."""

import time
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

HOUR_S = 3600
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


def test_a_clock_that_is_set_back_keeps_no_server_out(rig: Rig, clock: Clock) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=1)
    edge = rig.edge(
        options="upstreams = { web = { max_fails = 1, fail_timeout_s = 3, eject = false } },",
        main=clock.env,
    )
    edge.wait_for(1)
    b.stop()
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "fails", "b is out")
    clock.step(-HOUR_S)
    b.restart()
    rig.wait_until(lambda: edge.get().server == "b", "b gets requests again")
