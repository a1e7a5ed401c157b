"""A short demo on a whole cluster: its table, its files, and what is kept when it is interrupted."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from testing.daemons import free_port
from testing.waiting import PATIENCE_S

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

COMMAND = [sys.executable, "-m", "steelyard_loadtest"]
SERVERS = ["server-1", "server-2", "server-3"]


class Cluster:
    """A cluster of its own, on free ports."""

    def __init__(self, run_dir: Path) -> None:
        self.lb, self.api, self.first_server = free_port(), free_port(), free_port(3)
        self._flags = [
            *("--run-dir", str(run_dir), "--lb-port", str(self.lb), "--api-port", str(self.api)),
            *("--memcached-port", str(free_port()), "--redis-port", str(free_port())),
            *("--server-port", str(self.first_server)),
        ]

    def command(self, action: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "cluster", action, *self._flags],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def demo(self, folder: Path, *flags: str) -> list[str]:
        return [
            *(*COMMAND, "demo", "--out", str(folder)),
            *("--base-url", f"http://127.0.0.1:{self.lb}"),
            *("--controller-url", f"http://127.0.0.1:{self.api}"),
            *flags,
        ]

    def burners(self) -> int:
        url = f"http://127.0.0.1:{self.first_server}/healthz"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return int(json.loads(answer.read())["burners"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    up = started.command("up")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        yield started
    finally:
        down = started.command("down")
        assert down.returncode == 0, down.stderr


def summary(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "demo.json").read_text())
    return document


def assert_png(file: Path) -> None:
    picture = file.read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture) > 20_000


def test_a_demo_loads_burns_and_leaves_table_figures_and_plot(cluster: Cluster, tmp_path: Path) -> None:
    done = subprocess.run(
        cluster.demo(tmp_path, "--seconds", "9"), capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert cluster.burners() == 0

    thirds = re.findall(r"(before|burning|after) .*?(\d+) % +(\d+) % +(\d+) %\n", done.stdout)
    assert [line[0] for line in thirds] == ["before", "burning", "after"] * 2
    for _, *shares in thirds:
        assert 98 <= sum(map(int, shares)) <= 102  # three numbers, each rounded
    for title in ("Steelyard", "Equal static weights"):
        assert re.search(rf"^{title}: server-1: \d+ % → \d+ % of requests, p99 ", done.stdout, re.MULTILINE)

    document = summary(tmp_path)
    assert list(document["cpu_ms_per_request"]) == SERVERS
    assert document["burned"] == "server-1"
    steelyard, equal = document["phases"]
    assert (steelyard["name"], equal["name"]) == ("steelyard", "equal")
    for phase in (steelyard, equal):
        assert phase["planned_s"] == phase["measured_s"] == 9
        assert [round(at_s) for at_s in phase["burn_s"]] == [3, 6]
        for third in phase["thirds"].values():
            assert third["requests"] > third["failures"]
            assert sum(third["shares"].values()) == pytest.approx(1)
    for share in equal["thirds"]["before"]["shares"].values():
        assert share == pytest.approx(1 / 3, abs=0.1)

    table = (tmp_path / "demo.txt").read_text()
    assert table in done.stdout
    assert table.count("burning") == 2
    assert_png(tmp_path / "demo.png")


def test_ctrl_c_during_the_burn_keeps_what_was_measured_and_stops_burning(
    cluster: Cluster, tmp_path: Path
) -> None:
    # 30 requests a second: what locust buffers is less than it writes at once, so its orderly end is seen.
    command = cluster.demo(tmp_path, "--seconds", "12", "--rate", "30")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        deadline_s = time.monotonic() + 120
        while cluster.burners() == 0:
            assert demo.poll() is None
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        family = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=150)
    assert demo.returncode == 130, err
    assert "interrupted: the figures go as far as it went" in err
    assert "Traceback" not in err
    assert family
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []
    assert cluster.burners() == 0
    (phase,) = summary(tmp_path)["phases"]
    assert 4 <= phase["measured_s"] < 12
    before = phase["thirds"]["before"]
    assert before["requests"] > 0
    assert sum(before["shares"].values()) == pytest.approx(1)
    assert re.search(r"^Steelyard +before ", out, re.MULTILINE)
    assert_png(tmp_path / "demo.png")


def test_a_server_to_burn_that_is_not_there_is_one_line_with_those_that_are(
    cluster: Cluster, tmp_path: Path
) -> None:
    done = subprocess.run(
        cluster.demo(tmp_path / "out", "--burn", "server-9"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "steelyard-loadtest demo: --burn server-9: no such server; there are server-1, server-2, server-3\n"
    )
    assert not (tmp_path / "out").exists()
