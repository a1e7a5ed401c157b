"""A short demo on a whole cluster: its tables, its files, and its results after an interruption."""

import csv
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from steelyard_loadtest.cluster.processes import wait_ended
from steelyard_loadtest.scenario.algorithms import DEFAULT

from testing import warm_start
from testing.waiting import PATIENCE_S, wait_until

from .e2e_cluster import COMMAND, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def demo(cluster: Cluster, folder: Path, *flags: str) -> list[str]:
    return [*COMMAND, "demo", "--out", str(folder), *cluster.flags, *flags]


def burners(cluster: Cluster) -> int:
    """Count the first server's burners by its processes: a burnt server may answer too late."""
    server = int((cluster.run_dir / "server-1.process").read_text())
    family = psutil.Process(server).children(recursive=True)
    return sum("burner.py" in " ".join(_command(each)) for each in family)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it ended meanwhile
        return []


def trials(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "results.csv").read_text().splitlines()))


def assert_png(file: Path) -> None:
    picture = file.read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture) > 10_000


def test_a_demo_loads_burns_and_leaves_tables_figures_and_plot(cluster: Cluster, tmp_path: Path) -> None:
    done = warm_start.run(demo(cluster, tmp_path, "--seconds", "9"), patience_s=150)
    assert done.returncode == 0, done.stderr
    assert burners(cluster) == 0

    ours, equal = trials(tmp_path)
    assert (ours["algorithm"], equal["algorithm"]) == (DEFAULT, "nginx-rr")
    for trial in (ours, equal):
        assert int(trial["requests"]) > int(trial["failures"])
        assert [phase.partition("=")[0] for phase in trial["phases_p99_ms"].split()] == ["0-3", "3-6", "6-9"]
        shares = [float(share.partition("=")[2]) for share in trial["shares"].split()]
        assert len(shares) == 3
        assert sum(shares) == pytest.approx(1, abs=0.001)
    assert (tmp_path / "servers.csv").read_text().count("server-1") > 10

    page = (tmp_path / "demo.md").read_text()
    assert "p99 in ms in each phase" in done.stdout
    assert all(line in page for line in done.stdout.splitlines() if line.startswith("|"))
    assert_png(tmp_path / "demo.png")


def test_ctrl_c_during_the_second_burn_keeps_the_first_load_and_stops_burning(
    cluster: Cluster, tmp_path: Path
) -> None:
    command = demo(cluster, tmp_path, "--seconds", "9")
    with warm_start.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr
        assert any(line.endswith(" failed\n") for line in run.stderr), "the first load did not end"
        wait_until(lambda: burners(cluster))
        family = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=150)
    assert run.returncode == 130, err
    assert "interrupted: the page has the figures so far" in err
    assert "Traceback" not in err
    assert family
    assert wait_ended(family, PATIENCE_S) == set()
    assert burners(cluster) == 0
    (kept,) = trials(tmp_path)
    assert kept["algorithm"] == DEFAULT
    assert_png(tmp_path / "demo.png")


def test_a_cluster_that_is_not_up_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    done = warm_start.run(demo(Cluster(tmp_path), tmp_path / "out"))
    assert done.returncode == 1
    assert re.fullmatch(
        r"steelyard-loadtest demo: the load balancer is not well \(.+\); start the cluster: make up\n",
        done.stderr,
    )
    assert not (tmp_path / "out").exists()
