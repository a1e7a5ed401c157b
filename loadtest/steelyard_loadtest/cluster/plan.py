"""What a local cluster consists of: components, their commands, and the files they read.

Pure: a `Cluster` in, texts and commands out.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from string import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A demo server: its name, port and CPU limit in cores."""

    name: str
    port: int
    cpu_limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where a cluster runs, and on which ports; all on 127.0.0.1."""

    checkout: Path
    run_dir: Path
    socket: Path
    lb_port: int
    api_port: int
    memcached_port: int
    redis_port: int
    servers: tuple[Server, ...]
    law: str = "steelyard"
    limit_by: str = "auto"
    nginx_workers: int = 2
    nginx_modules: tuple[str, ...] = ()
    user: str | None = None
    """The user to stay, when this is root; daemons that refuse to be root are told so."""

    @property
    def log_dir(self) -> Path:
        """Return the one folder that all logs lie in."""
        return self.run_dir / "logs"

    @property
    def state_dir(self) -> Path:
        """Return the folder of the weight tables that nginx saves."""
        return self.run_dir / "nginx-state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One process: what starts it, which port it takes, and how it is told to stop."""

    name: str
    command: tuple[str, ...]
    port: int | None = None
    stop_signal: str = "TERM"
    order: int = 1
    environment: dict[str, str] = field(default_factory=dict)


class _Percent(Template):
    # nginx's own variables begin with a dollar sign.
    delimiter = "%"


def components(cluster: Cluster) -> list[Component]:
    """Return the cluster's processes in the order in which they start."""
    python = sys.executable
    memcached = f"127.0.0.1:{cluster.memcached_port}"
    found = [
        Component(
            name="memcached",
            command=(
                "memcached", "-l", "127.0.0.1", "-p", str(cluster.memcached_port), "-U", "0", "-m", "64",
                *(("-u", "nobody") if cluster.user == "root" else ()),
            ),
            port=cluster.memcached_port,
        ),
        Component(
            name="redis",
            command=(
                "redis-server", "--bind", "127.0.0.1", "--port", str(cluster.redis_port),
                # Nothing outlives `make down`: a new cluster is to begin at its baselines.
                "--dir", str(cluster.run_dir), "--save", "", "--daemonize", "no",
            ),
            port=cluster.redis_port,
        ),
    ]  # fmt: skip
    for server in cluster.servers:
        pid_file = cluster.run_dir / f"{server.name}.pid"
        found.append(
            Component(
                name=server.name,
                command=(
                    python, "-m", "steelyard_loadtest.server",
                    "--name", server.name, "--port", str(server.port),
                    "--cpu-limit", str(server.cpu_limit), "--limit-by", cluster.limit_by,
                    "--pid-file", str(pid_file),
                ),
                port=server.port,
                order=2,
            )
        )  # fmt: skip
        found.append(
            Component(
                name=server.name.replace("server", "agent"),
                command=(
                    python, "-m", "steelyard_agent", "--upstream", "web", "--peer", server.name,
                    "--memcached", memcached, "--scope", "process", "--pid-file", str(pid_file),
                    "--cpu-limit", str(server.cpu_limit),
                ),
                order=3,
            )
        )  # fmt: skip
    found.append(
        Component(
            name="controller",
            command=(
                python, "-m", "steelyard_controller", "--config", str(cluster.run_dir / "controller.yaml"),
                "--api-port", str(cluster.api_port), "--memcached", memcached,
                "--state-url", f"redis://127.0.0.1:{cluster.redis_port}/0",
            ),
            port=cluster.api_port,
            order=4,
        )
    )  # fmt: skip
    found.append(
        Component(
            name="nginx",
            command=(
                "nginx",
                "-p",
                str(cluster.run_dir),
                "-c",
                "nginx.conf",
                "-e",
                str(cluster.log_dir / "nginx.log"),
            ),
            port=cluster.lb_port,
            stop_signal="QUIT",
            order=5,
        )
    )
    return found


def files(cluster: Cluster, templates: dict[str, str]) -> dict[str, str]:
    """Return the text of every file the cluster reads, by its name in the run folder."""
    names = {
        "run_dir": str(cluster.run_dir),
        "log_dir": str(cluster.log_dir),
        "socket": str(cluster.socket),
        "lua_dir": str(cluster.checkout / "openresty" / "lua"),
        "state_dir": str(cluster.state_dir),
        "lb_port": str(cluster.lb_port),
        "api_port": str(cluster.api_port),
        "memcached_port": str(cluster.memcached_port),
        "workers": str(cluster.nginx_workers),
        # The workers read the checkout and write the run folder, which may both lie in a private home.
        "user": f"user {cluster.user};" if cluster.user else "",
        "supervisor_user": f"user = {cluster.user}" if cluster.user else "",
        "load_modules": "\n".join(f"load_module {path};" for path in cluster.nginx_modules),
        "law": cluster.law,
        "bootstrap": ", ".join(f'"127.0.0.1:{server.port}"' for server in cluster.servers),
        "equal_servers": "\n".join(f"        server 127.0.0.1:{server.port};" for server in cluster.servers),
        "peers": "\n".join(
            f'      - {{id: {server.name}, address: "127.0.0.1:{server.port}", baseline: 1}}'
            for server in cluster.servers
        ),
        "programs": "\n".join(_program(cluster, component) for component in components(cluster)),
    }
    # supervisord expands % in its values; nothing else here does.
    escaped = {name: value.replace("%", "%%") for name, value in names.items()}
    return {
        name: _Percent(text).substitute(escaped if name == "supervisord.conf" else names)
        for name, text in templates.items()
    }


def _program(cluster: Cluster, component: Component) -> str:
    environment = {
        "STEELYARD_CLUSTER": str(cluster.run_dir),
        "PYTHONUNBUFFERED": "1",
        **component.environment,
    }
    command = " ".join(f'"{part}"' if " " in part or not part else part for part in component.command)
    return "\n".join(
        [
            f"[program:{component.name}]",
            f"command = {command}",
            f"directory = {cluster.run_dir}",
            "environment = " + ",".join(f'{key}="{value}"' for key, value in environment.items()),
            f"priority = {component.order}",
            "autostart = false",
            # One that dies stays dead, so that `make status` can name it; `make up` starts it again.
            "autorestart = false",
            "startsecs = 1",
            "startretries = 0",
            f"stopsignal = {component.stop_signal}",
            "stopwaitsecs = 5",
            "stopasgroup = true" if component.stop_signal == "TERM" else "stopasgroup = false",
            "killasgroup = true",
            "redirect_stderr = true",
            f"stdout_logfile = {cluster.log_dir / component.name}.log",
            "stdout_logfile_maxbytes = 5MB",
            "stdout_logfile_backups = 1",
            "",
        ]
    )
