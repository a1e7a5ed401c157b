"""docker-compose.yml on a real engine: whole, closed, and whole again whichever part is killed."""

import json
from pathlib import Path

import pytest

from testing.visitors import Visitors

from .stack import CONTROLLERS, SERVERS, Stack, until

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1200)]

SERVICES = ("nginx", *CONTROLLERS, *SERVERS, "memcached", "redis")

# Longer than a table is fresh, a lease lasts and a sample lives (3 s each).
A_WHILE = 400


def test_every_container_is_healthy(stack: Stack) -> None:
    for service in SERVICES:
        stack.until_healthy(service)


@pytest.mark.parametrize("service", SERVICES)
def test_no_container_may_more_than_it_needs(stack: Stack, service: str) -> None:
    container = stack.inspect(service)
    host = container["HostConfig"]
    uid = stack.inside(service, "id -u").stdout.strip()
    assert int(uid) > 0
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    assert host["LogConfig"]["Config"] == {"max-file": "3", "max-size": "10m"}
    assert host["Memory"] > 0
    assert host["NanoCpus"] > 0
    assert host["PidsLimit"] > 0


def test_only_the_load_balancer_and_the_api_are_published_and_on_loopback(stack: Stack) -> None:
    published = {
        service: {
            binding["HostIp"]
            for bindings in stack.inspect(service)["NetworkSettings"]["Ports"].values()
            for binding in bindings or []
        }
        for service in SERVICES
    }
    assert {service: hosts for service, hosts in published.items() if hosts} == {
        service: {"127.0.0.1"} for service in ("nginx", *CONTROLLERS)
    }


def test_servers_reach_memcached_and_not_redis(stack: Stack) -> None:
    networks = stack.inspect("redis")["NetworkSettings"]["Networks"]
    address = next(network["IPAddress"] for network in networks.values())
    assert stack.inside("server-1", "exec 3<>/dev/tcp/memcached/11211", check=False).returncode == 0
    for host in ("redis", address):
        reached = stack.inside("server-1", f"timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/6379'", check=False)
        assert reached.returncode != 0


def test_no_secret_shows_where_the_engine_shows_things(stack: Stack) -> None:
    secrets = [path.read_text() for path in stack.secrets.iterdir()]
    assert len(secrets) == 4
    for service in SERVICES:
        shown = json.dumps(stack.inspect(service)) + stack.compose("logs", "--no-color", service).stdout
        shown += stack.inside(service, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
        assert [secret for secret in secrets if secret in shown] == []


def test_redis_answers_nobody_without_the_password(stack: Stack) -> None:
    ask = "exec 3<>/dev/tcp/redis/6379; printf 'PING\\r\\n' >&3; read -r answer <&3; echo \"$answer\""
    assert stack.inside("controller-1", ask).stdout.startswith("-NOAUTH")


def test_servers_are_measured_within_their_limits(stack: Stack) -> None:
    ask = "printf 'get steelyard:1:sample:web:server-3\\r\\nquit\\r\\n' >&3; cat <&3"
    sample = stack.inside("server-3", f"exec 3<>/dev/tcp/memcached/11211; {ask}").stdout
    record = json.loads(sample.splitlines()[1].split(".", 1)[1])
    assert record["scope"] == "cgroup"
    assert record["capacity"]["cpu_cores"] == pytest.approx(0.5)
    assert record["capacity"]["mem_bytes"] == 256 * 2**20


def test_either_controller_answers_the_api(stack: Stack) -> None:
    leader = stack.leader()
    seen = {name: stack.json(port, "/v1/upstreams/web") for name, port in stack.api_ports.items()}
    assert leader in seen
    assert {name: [peer["id"] for peer in web["peers"]] for name, web in seen.items()} == {
        name: list(SERVERS) for name in CONTROLLERS
    }


def test_a_write_needs_the_token(stack: Stack) -> None:
    # A published port is not the controller's loopback.
    leader = until(stack.leader, "a leader")
    token = (stack.secrets / "admin_token").read_text()
    statuses = {
        header: stack.patch(leader, "/v1/upstreams/web/peers/server-1", {"state": "up"}, header)
        for header in (None, "Bearer wrong", f"Bearer {token}")
    }
    assert list(statuses.values()) == [401, 401, 200]


def test_weights_follow_a_burner_in_one_container(stack: Stack, visitors: Visitors) -> None:
    until(lambda: stack.shares()["server-3"] > 0.42, "the servers' sizes are learnt (1 : 1 : 2)")
    calm = visitors.share("server-1", 600)
    stack.burn("server-1", "POST /burn?seconds=300&workers=2")
    until(lambda: visitors.share("server-1", 200) < 0.6 * calm, "server-1's share has fallen")
    stack.burn("server-1", "DELETE /burn")

    def as_its_twin() -> bool:
        served = visitors.next(300)
        return served["server-1"] > 0.8 * served["server-2"]

    # Not as when it was calm: the sizes may not have been known as well then.
    until(as_its_twin, "it has come back", patience_s=180)
    assert visitors.failures == []


def test_the_leader_is_killed(stack: Stack, visitors: Visitors) -> None:
    old = until(stack.leader, "a leader")
    term = stack.status()["term"]
    (new,) = set(CONTROLLERS) - {old}
    stack.kill(old)
    until(lambda: (stack.service(new) or {}).get("role") == "leader", "the standby leads")
    until(
        lambda: (web := stack.status()) and web["term"] > term and web["rung"] == "fresh",
        "nginx has a table of the new leader",
    )
    visitors.next(A_WHILE)
    stack.start(old)
    until(lambda: (stack.service(old) or {}).get("role") == "standby", "the old leader stands by")
    assert stack.leader() == new
    assert visitors.failures == []


def test_memcached_is_killed(stack: Stack, visitors: Visitors) -> None:
    stack.kill("memcached")
    visitors.next(A_WHILE)
    # nginx asks the controllers instead.
    assert until(stack.status, "nginx's status")["rung"] in {"fresh", "hold"}
    stack.start("memcached")
    until(stack.is_ready, "fresh tables and a sample of every server again")
    visitors.next(100)
    assert visitors.failures == []


def test_redis_is_killed(stack: Stack, visitors: Visitors) -> None:
    leader = until(stack.leader, "a leader")
    term = stack.status()["term"]
    stack.kill("redis")
    until(lambda: "edis" in " ".join(stack.service(leader)["degraded"]), "the leader says what is missing")
    before = stack.status()["generation"]
    visitors.next(A_WHILE)
    web = stack.status()
    assert (web["rung"], web["term"]) == ("fresh", term)
    assert web["generation"] > before
    stack.start("redis")
    until(lambda: (name := stack.leader()) and not stack.service(name)["degraded"], "a leader without faults")
    until(stack.is_ready, "fresh tables")
    assert visitors.failures == []


def test_a_server_is_killed(stack: Stack, visitors: Visitors) -> None:
    stack.kill("server-2")
    # Its requests in flight are GETs, so another server gets them.
    visitors.next(A_WHILE)
    assert visitors.share("server-2") == 0
    stack.start("server-2")
    until(lambda: visitors.share("server-2") > 0.05, "server-2 gets requests again")
    assert visitors.failures == []


def test_an_agent_is_killed(stack: Stack, visitors: Visitors) -> None:
    find = (
        "for p in /proc/[0-9]*; do"
        " tr '\\0' ' ' <$p/cmdline | grep -q steelyard_agent && echo ${p#/proc/}; done; true"
    )
    pids = stack.inside("server-3", find).stdout.split()
    stack.inside("server-3", f"kill -9 {' '.join(pids)}")
    fresh = until(
        lambda: [pid for pid in stack.inside("server-3", find).stdout.split() if pid not in pids],
        "another agent runs",
    )
    assert len(fresh) == 1
    until(stack.is_ready, "it sends samples")
    assert visitors.share("server-3") > 0.1
    assert visitors.failures == []


def test_a_container_that_dies_by_itself_is_started_again(stack: Stack, visitors: Visitors) -> None:
    leader = until(stack.leader, "a leader")
    before = stack.inspect(leader)["RestartCount"]
    # Not `docker kill`, which the engine considers intended.
    pid = stack.inspect(leader)["State"]["Pid"]
    stack.inside(leader, "kill -TERM 1")
    until(lambda: stack.inspect(leader)["State"]["Pid"] not in (0, pid), f"{leader} was started again")
    assert stack.inspect(leader)["RestartCount"] == before + 1
    until(stack.is_ready, "the cluster works")
    until(lambda: stack.service(leader), f"{leader} answers again")
    assert visitors.failures == []


def test_a_backup_brings_back_what_was_declared(stack: Stack, tmp_path: Path) -> None:
    peer = "/v1/upstreams/web/peers/server-1"
    token = f"Bearer {(stack.secrets / 'admin_token').read_text()}"

    def pin() -> object:
        return (stack.json(stack.api_ports[CONTROLLERS[0]], peer) or {"pin": "?"})["pin"]

    until(lambda: stack.service(CONTROLLERS[0]) and stack.leader(), "the controller answers, and one leads")
    assert stack.patch(CONTROLLERS[0], peer, {"pin": 20}, token) == 200
    stack.redis_script("backup", tmp_path / "backup.rdb")
    assert stack.patch(CONTROLLERS[0], peer, {"pin": None}, token) == 200
    until(lambda: pin() is None, "the pin is gone")
    stack.redis_script("restore", tmp_path / "backup.rdb")
    until(lambda: pin() == 20, "the pin is back")
    until(stack.is_ready, "the cluster works")
    assert stack.patch(CONTROLLERS[0], peer, {"pin": None}, token) == 200


def test_nothing_is_forgotten_when_all_of_it_stops_and_starts(stack: Stack) -> None:
    term = stack.status()["term"]
    stack.compose("stop", timeout_s=300)
    stack.compose("up", "--detach", timeout_s=300)
    until(stack.is_ready, "the cluster works")
    assert stack.status()["term"] > term
    for service in SERVICES:
        stack.until_healthy(service)
