"""Bringing a cluster up and down: start the missing parts, wait until they work, name a dead one."""

import time
from collections.abc import Callable
from functools import partial

from steelyard_loadtest.cluster.nginx import TEMPLATES
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM, Part, agent_of
from steelyard_loadtest.cluster.plan import Cluster, components, files
from steelyard_loadtest.cluster.processes import end, holder, leftovers, running, start, stop
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.http_ask import LOOK_S, ask_line, look, why_not_ok
from steelyard_loadtest.templates import render_file

# Everything is up within about 5 s; a loaded machine may take several times that.
PATIENCE_S = 60.0

Check = Callable[[], str | None]
"""Returns what a component still lacks to do its job, or None when it is ready."""


def up(cluster: Cluster) -> int:
    """Start the missing parts, wait until all of them work, and print what to try."""
    texts, parts = files(cluster), components(cluster)
    if any(running(part, cluster.run_dir) for part in parts):
        _refuse_other_settings(cluster, texts)
    else:
        end(leftovers(cluster.run_dir))
        _refuse_taken_ports(parts)
        _write(cluster, texts)
    _start(cluster, parts)
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
    """Stop everything, including leftovers of an earlier crash."""
    parts = components(cluster)
    was_running = any(running(part, cluster.run_dir) for part in parts)
    stop(parts, cluster.run_dir)
    end(leftovers(cluster.run_dir))
    print(f"steelyard: {'stopped' if was_running else 'was not running'}")
    return 0


def status(cluster: Cluster) -> int:
    """Print each component and its state; 0 if all of them run and work."""
    alive = {part.name: running(part, cluster.run_dir) is not None for part in components(cluster)}
    if not any(alive.values()):
        print("steelyard: not running; start it with: make up")
        return 3
    waiting = _checks(cluster)
    died = "it died; start it again with: make up"
    lacks = {name: waiting[name]() if runs else died for name, runs in alive.items()}
    for name, missing in lacks.items():
        print(f"{name:12} {'running' if alive[name] else 'not running'}: {missing or 'ready'}")
        if missing:
            print(_log_tail(cluster, name))
    return 1 if any(lacks.values()) else 0


def _start(cluster: Cluster, parts: list[Part]) -> None:
    """Start the missing parts. A part that dies stays dead, so that `make status` can name it."""
    idle = [part for part in parts if running(part, cluster.run_dir) is None]
    _refuse_taken_ports(idle)
    waiting = _checks(cluster)
    deadline = time.monotonic() + PATIENCE_S
    for step in sorted({part.order for part in parts}):
        group = [part for part in parts if part.order == step]
        for part in group:
            if part in idle:
                start(part, cluster.run_dir, cluster.log_dir / f"{part.name}.log")
        # Agents are ready when the controller has their samples, which takes longer.
        for part in group:
            if not part.name.startswith("agent"):
                _await(cluster, part, waiting[part.name], deadline)
    for part in parts:
        if part.name.startswith("agent"):
            _await(cluster, part, waiting[part.name], deadline)


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


def _await(cluster: Cluster, part: Part, check: Check, deadline: float) -> None:
    while True:
        alive = running(part, cluster.run_dir) is not None
        missing = check() if alive else ""
        if missing is None:
            print(f"steelyard: {part.name} is ready", flush=True)
            return
        why = f"{part.name} died; `make down` stops the rest"
        if alive:
            why = f"{part.name} is not ready after {PATIENCE_S:.0f} s: {missing}"
        if not alive or time.monotonic() > deadline:
            raise SetupError(f"{why}. The end of its log:\n{_log_tail(cluster, part.name)}")
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
    return None if rung == "fresh" else f"nginx is on the rung {rung!r}, not on a fresh weight table"
