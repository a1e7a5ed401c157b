"""A small stage starts, notices a cut store, and leaves nothing behind; needs root."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PATIENCE_S = 30
"""Each step takes a second or two; a busy machine may need several times that."""

SCRIPT = f"""
import json, sys, time
from pathlib import Path
from steelyard_resilience.stage.hosts import Settings
from steelyard_resilience.stage.stage import Stage

def wait_for_source(stage, start):
    deadline = time.monotonic() + {PATIENCE_S}
    while time.monotonic() < deadline:
        status = stage.status()
        if status and status["upstreams"]["web"]["source"].startswith(start):
            return
        time.sleep(0.1)
    raise SystemExit(f"nginx's tables do not come from {{start}}: {{status}}")

with Stage(Path(sys.argv[1]), Settings(servers=2)) as stage:
    wait_for_source(stage, "memcached")
    stage.wait_well({PATIENCE_S})
    stage.cut("edge", "memcached")
    wait_for_source(stage, "controller")
    others = stage.readiness(stage.leader())
    stage.mend("edge", "memcached")
    wait_for_source(stage, "memcached")
    stage.wait_well({PATIENCE_S})
    stage.slow("redis", 0.001)
    pids = [stage.daemon(name).pid for name in stage.names]
    stage.daemon("server-1").pause()
print(json.dumps({{"others": others, "pids": pids}}))
"""


def test_the_cluster_works_with_a_store_cut_off_from_nginx_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--", sys.executable, "-c", SCRIPT, str(tmp_path / "stage")],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["others"]["status"] == "ok"
    assert len(report["pids"]) == 9
    assert not [pid for pid in report["pids"] if str(tmp_path) in _command(pid)]
    mounts = Path("/proc/mounts").read_text()
    assert str(tmp_path) not in mounts


def test_hosts_are_not_made_in_the_machine_s_own_network(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from steelyard_resilience.stage.hosts import Settings; "
        "from steelyard_resilience.stage.stage import Stage; Stage(Path(sys.argv[1]), Settings()).__enter__()"
    )
    # A network with a route is enough: the test uses its own, so that it cannot spoil the machine's.
    road = "ip link set lo up && ip route add 192.0.2.0/24 dev lo"
    inside = f"{road} && exec {sys.executable} -c '{script}' {tmp_path}"
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--", "sh", "-c", inside], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "hosts are made in a network of their own (as root: unshare --net --mount COMMAND)" in done.stderr


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
