"""The end of the whole cluster: `make down` leaves nothing. Files run by name, so this is the last."""

import psutil
import pytest
from steelyard_loadtest.cluster.processes import holder

from .e2e_cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_up_ends_what_nobody_knows_of_any_more_and_down_leaves_nothing(cluster: Cluster) -> None:
    assert cluster.command("up").returncode == 0  # it runs already, unless this test runs again
    for noted in cluster.run_dir.glob("*.process"):
        noted.unlink()
    assert cluster.command("status").returncode == 3
    up = cluster.command("up")
    assert up.returncode == 0, up.stderr
    assert all(holder(port) for port in cluster.ports)
    assert cluster.command("down").returncode == 0
    assert [port for port in cluster.ports if holder(port)] == []
    assert _mentioning(str(cluster.run_dir)) == []
    assert "was not running" in cluster.command("down").stdout


def _mentioning(text: str) -> list[str]:
    running = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if text in line:
            running.append(line)
    return running
