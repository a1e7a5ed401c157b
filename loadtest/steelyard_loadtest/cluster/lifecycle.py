"""Bringing a cluster up and down: start what does not run, wait until it works, name what died."""

import time
from pathlib import Path

from steelyard_loadtest.cluster import ports, ready
from steelyard_loadtest.cluster.plan import Cluster, Component, components, files
from steelyard_loadtest.cluster.supervise import Supervisor, end, leftovers

# Everything is up within some 5 s; a loaded machine may take several times that.
PATIENCE_S = 60.0


def up(cluster: Cluster) -> int:
    """Start what does not run, wait until all of it works, and say what to try."""
    texts = _texts(cluster)
    with Supervisor(cluster.socket) as supervisor:
        if supervisor.is_up():
            _refuse_other_settings(cluster, texts)
        else:
            end(leftovers(cluster.run_dir))
            _refuse_taken_ports(components(cluster))
            _write(cluster, texts)
            supervisor.launch(cluster.run_dir / "supervisord.conf")
        _start(cluster, supervisor)
    print(_welcome(cluster))
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
    waiting = ready.checks(cluster)
    broken = False
    for name, row in states.items():
        missing = waiting[name]() if row["alive"] else row["description"]
        print(f"{name:12} {'running' if row['alive'] else 'not running'}: {missing or 'ready'}")
        if missing:
            broken = True
            print(_log_tail(cluster, name))
    return 1 if broken else 0


def _start(cluster: Cluster, supervisor: Supervisor) -> None:
    plan = components(cluster)
    states = supervisor.states()
    idle = [part for part in plan if not states[part.name]["alive"]]
    _refuse_taken_ports(idle)
    waiting = ready.checks(cluster)
    deadline = time.monotonic() + PATIENCE_S
    for step in sorted({part.order for part in plan}):
        group = [part for part in plan if part.order == step]
        for part in group:
            if part in idle:
                supervisor.start(part.name)
        # Agents are ready when the controller has their samples, which comes later.
        for part in group:
            if not part.name.startswith("agent"):
                _await(cluster, supervisor, part.name, waiting, deadline)
    for name in list(waiting):
        _await(cluster, supervisor, name, waiting, deadline)


def _texts(cluster: Cluster) -> dict[str, str]:
    folder = Path(__file__).parent / "templates"
    templates = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}
    return files(cluster, templates)


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
            raise RuntimeError(
                f"a cluster runs here with other settings ({name} differs); run `make down` first"
            )


def _refuse_taken_ports(parts: list[Component]) -> None:
    for part in parts:
        holder = None if part.port is None else ports.holder(part.port)
        if holder is not None:
            raise RuntimeError(
                f"port {part.port} ({part.name}) is taken by {holder}; stop that, or choose another port "
                "(steelyard-loadtest cluster --help)"
            )


def _await(
    cluster: Cluster, supervisor: Supervisor, name: str, waiting: dict[str, ready.Check], deadline: float
) -> None:
    if name not in waiting:
        return
    while True:
        row = supervisor.states()[name]
        if not row["alive"]:
            raise RuntimeError(
                f"{name} died ({row['spawnerr'] or row['description']}); `make down` stops the rest. "
                f"The end of its log:\n{_log_tail(cluster, name)}"
            )
        missing = waiting[name]()
        if missing is None:
            del waiting[name]
            print(f"steelyard: {name} is ready", flush=True)
            return
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{name} is not ready after {PATIENCE_S:.0f} s: {missing}. "
                f"The end of its log:\n{_log_tail(cluster, name)}"
            )
        time.sleep(0.1)


def _log_tail(cluster: Cluster, name: str, lines: int = 15) -> str:
    path = cluster.log_dir / f"{name}.log"
    try:
        tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        tail = []
    return "\n".join(f"    {line}" for line in tail or ["(nothing was logged)"]) + f"\n    ({path})"


def _welcome(cluster: Cluster) -> str:
    limits = " : ".join(f"{server.cpu_limit:g}" for server in cluster.servers)
    lb, api, first = cluster.lb_port, cluster.api_port, cluster.servers[0]
    return f"""
The cluster is up.

  load balancer   http://127.0.0.1:{lb}/                    three servers behind it, CPU {limits} cores
  its view        http://127.0.0.1:{lb}/steelyard/status    weights, picks, the rung it stands on
  the page        http://127.0.0.1:{api}/                    shares, utilization, why a server has its weight
  REST API        http://127.0.0.1:{api}/docs                or, as commands: .venv/bin/steelyard
  logs            {cluster.log_dir}

Try:  curl -si localhost:{lb}/                               which server answered?
      make demo                                          a minute of load, a CPU hog, and the plot
      curl -XPOST 'localhost:{first.port}/burn?seconds=30'      a hog of your own on {first.name}
      make status                                        is everything well?
      make down
"""
