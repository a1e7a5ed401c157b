"""Bringing a cluster up and down: start what does not run, wait until it works, name what died."""

import time
from collections.abc import Callable
from functools import partial

from steelyard_loadtest.cluster.nginx import TEMPLATES
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM, Part, agent_of
from steelyard_loadtest.cluster.plan import Cluster, components, files
from steelyard_loadtest.cluster.supervise import Supervisor, end, holder, leftovers
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.http_ask import LOOK_S, ask_line, look, why_not_ok
from steelyard_loadtest.templates import render_file

# Everything is up within some 5 s; a loaded machine may take several times that.
PATIENCE_S = 60.0

Check = Callable[[], str | None]
"""Says what a component still misses to do its job, which is more than to run; None when it is ready."""


def up(cluster: Cluster) -> int:
    """Start what does not run, wait until all of it works, and say what to try."""
    texts = files(cluster)
    with Supervisor(cluster.socket) as supervisor:
        if supervisor.is_up():
            _refuse_other_settings(cluster, texts)
        else:
            end(leftovers(cluster.run_dir))
            _refuse_taken_ports(components(cluster))
            _write(cluster, texts)
            supervisor.launch(cluster.run_dir / "supervisord.conf")
        _start(cluster, supervisor)
    values = {
        "lb": cluster.lb_port,
        "api": cluster.api_port,
        "server": cluster.servers[0],
        "limits": " : ".join(f"{server.cpu_limit:g}" for server in cluster.servers),
        "log_dir": cluster.log_dir,
    }
    print(render_file(TEMPLATES / "welcome.txt", values), end="")
    return 0


def down(cluster: Cluster) -> int:
    """Stop everything, and whatever an earlier crash left behind."""
    with Supervisor(cluster.socket) as supervisor:
        if supervisor.is_up():
            supervisor.shut_down()
            print("steelyard: stopped")
        else:
            print("steelyard: was not running")
    end(leftovers(cluster.run_dir))
    return 0


def status(cluster: Cluster) -> int:
    """Name each component and its state; 0 when all of them run and work."""
    with Supervisor(cluster.socket) as supervisor:
        if not supervisor.is_up():
            print("steelyard: not running; start it with: make up")
            return 3
        states = supervisor.states()
    waiting = _checks(cluster)
    lacks = {name: waiting[name]() if row["alive"] else row["description"] for name, row in states.items()}
    for name, missing in lacks.items():
        running = "running" if states[name]["alive"] else "not running"
        print(f"{name:12} {running}: {missing or 'ready'}")
        if missing:
            print(_log_tail(cluster, name))
    return 1 if any(lacks.values()) else 0


def _start(cluster: Cluster, supervisor: Supervisor) -> None:
    plan = components(cluster)
    states = supervisor.states()
    idle = [part for part in plan if not states[part.name]["alive"]]
    _refuse_taken_ports(idle)
    waiting = _checks(cluster)
    deadline = time.monotonic() + PATIENCE_S
    for step in sorted({part.order for part in plan}):
        group = [part for part in plan if part.order == step]
        for part in group:
            if part in idle:
                supervisor.start(part.name)
        # Agents are ready when the controller has their samples, which comes later.
        for part in group:
            if not part.name.startswith("agent"):
                _await(cluster, supervisor, part.name, waiting.pop(part.name), deadline)
    for name, check in waiting.items():
        _await(cluster, supervisor, name, check, deadline)


def _write(cluster: Cluster, texts: dict[str, str]) -> None:
    cluster.log_dir.mkdir(parents=True, exist_ok=True)
    (cluster.run_dir / "nginx-temp").mkdir(exist_ok=True)
    cluster.state_dir.mkdir(exist_ok=True)
    for name, text in texts.items():
        (cluster.run_dir / name).write_text(text, encoding="utf-8")


def _refuse_other_settings(cluster: Cluster, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = cluster.run_dir / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            raise SetupError(
                f"a cluster runs here with other settings ({name} differs); run `make down` first"
            )


def _refuse_taken_ports(parts: list[Part]) -> None:
    for part in parts:
        taken_by = None if part.port is None else holder(part.port)
        if taken_by is not None:
            raise SetupError(
                f"port {part.port} ({part.name}) is taken by {taken_by}; stop that, or choose another port "
                "(steelyard-loadtest cluster --help)"
            )


def _await(cluster: Cluster, supervisor: Supervisor, name: str, check: Check, deadline: float) -> None:
    while True:
        row = supervisor.states()[name]
        missing = check() if row["alive"] else ""
        if missing is None:
            print(f"steelyard: {name} is ready", flush=True)
            return
        why = f"{name} died ({row['spawnerr'] or row['description']}); `make down` stops the rest"
        if row["alive"]:
            why = f"{name} is not ready after {PATIENCE_S:.0f} s: {missing}"
        if not row["alive"] or time.monotonic() > deadline:
            raise SetupError(f"{why}. The end of its log:\n{_log_tail(cluster, name)}")
        time.sleep(0.1)


def _log_tail(cluster: Cluster, name: str, lines: int = 15) -> str:
    path = cluster.log_dir / f"{name}.log"
    try:
        tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        tail = []
    return "\n".join(f"    {line}" for line in tail or ["(nothing was logged)"]) + f"\n    ({path})"


def _checks(cluster: Cluster) -> dict[str, Check]:
    servers, api = cluster.servers, cluster.api_port
    answers = partial(why_not_ok, HOST, timeout_s=LOOK_S)
    return {
        "memcached": partial(_asks, cluster.memcached_port, "version", "VERSION"),
        "redis": partial(_asks, cluster.redis_port, "PING", "+PONG"),
        **{server.name: partial(answers, server.port, "/healthz") for server in servers},
        "controller": partial(answers, api, "/readyz"),
        **{agent_of(server.name): partial(_samples, api, server.name) for server in servers},
        "nginx": partial(_weighs, cluster.lb_port),
    }


def _asks(port: int, question: str, answer: str) -> str | None:
    try:
        got = ask_line(HOST, port, question, timeout_s=LOOK_S)
    except ProgramError as error:
        return str(error)
    return None if got.startswith(answer) else f"port {port} answers {got[:40]!r}"


def _samples(api_port: int, peer: str) -> str | None:
    peers = (look(HOST, api_port, f"/v1/upstreams/{UPSTREAM}") or {}).get("peers", [])
    if any(row["id"] == peer and row["utilization"] is not None for row in peers):
        return None
    return f"the controller has no sample of {peer} yet"


def _weighs(lb_port: int) -> str | None:
    document = look(HOST, lb_port, "/steelyard/status")
    if not document:
        return f"port {lb_port} gives no /steelyard/status"
    rung = document.get("upstreams", {}).get(UPSTREAM, {}).get("rung")
    return None if rung == "fresh" else f"nginx stands on the rung {rung!r}, not on a fresh weight table"
