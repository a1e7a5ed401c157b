"""Redis in sets, for tests: a primary and a replica under three Sentinels, and a cluster."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

# The absence after which a node counts as down. With less, a busy machine starts failovers by itself.
DOWN_MS = 1000

NAME = "mymaster"


@dataclass
class RedisSet:
    """A set of Redis; a controller's keys are on `primary`, and on `replica`."""

    url: str
    primary: Daemon
    replica: Daemon
    others: list[Daemon]
    """The Sentinels, or the other nodes."""
    tag: str
    """The prefix of the keys."""
    connect: dict[str, Any] = field(default_factory=dict)

    def ask(self, daemon: Daemon, *command: str) -> Any:
        """Return the answer of one node."""
        return _ask(daemon, *command, **self.connect)

    def is_promoted(self) -> bool:
        """Return whether the replica has become the primary."""
        return bool(self.ask(self.replica, "ROLE")[0] == b"master")


def wait(look: Callable[[], object], what: str) -> None:
    """Wait until `look` returns a true value; it may raise `RedisError` until then."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if look():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)


@contextmanager
def behind_sentinels(folder: Path, *flags: str, replicas: int = 1, **connect: Any) -> Iterator[RedisSet]:
    """Yield a primary and replicas under three Sentinels; all have the flags, and clients use them."""
    with ExitStack() as stack:
        primary = _start(stack, folder, free_port(), *flags)
        of_primary = ["--replicaof", "127.0.0.1", str(primary.port)]
        replica, *_ = (_start(stack, folder, free_port(), *flags, *of_primary) for _ in range(replicas))
        sentinels = [_sentinel(stack, folder, primary, *flags) for _ in range(3)]

        def are_watching() -> bool:
            states = [_ask(sentinel, "SENTINEL MASTER", NAME, **connect) for sentinel in sentinels]
            known = {(state["num-slaves"], state["num-other-sentinels"]) for state in states}
            return known == {(replicas, 2)}

        wait(are_watching, "the Sentinels to find each other and the replica")
        hosts = ",".join(sentinel.address for sentinel in sentinels)
        url = f"redis+sentinel://{hosts}/{NAME}/0"
        yield RedisSet(url, primary, replica, sentinels, "steelyard", connect)


@contextmanager
def cluster(folder: Path) -> Iterator[RedisSet]:
    """Yield a cluster of three primaries; the one with a controller's keys has a replica."""
    flags = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_MS)]
    with ExitStack() as stack:
        # By default the nodes talk to each other 10,000 ports above, where any outgoing connection may be.
        nodes = [
            _start(stack, folder, free_port(), *flags, "--cluster-port", str(free_port())) for _ in range(4)
        ]
        _cli("--cluster", "create", *(node.address for node in nodes[:3]), "--cluster-yes")
        wait(lambda: any(_has_keys(node) for node in nodes[:3]), "all slots")
        primary = next(node for node in nodes[:3] if _has_keys(node))
        id = _cli("-p", str(primary.port), "CLUSTER", "MYID").strip()
        _cli(
            "--cluster", "add-node", nodes[3].address, primary.address, "--cluster-slave",
            "--cluster-master-id", id,
        )  # fmt: skip
        wait(lambda: _ask(nodes[3], "ROLE")[3] == b"connected", "the replica")
        # A node votes only for a replica that it knows.
        wait(
            lambda: all(_cli("-p", str(node.port), "CLUSTER", "REPLICAS", id).strip() for node in nodes[:3]),
            "the replica at every node",
        )
        hosts = ",".join(node.address for node in nodes[:3])
        others = [node for node in nodes[:3] if node is not primary]
        yield RedisSet(f"redis+cluster://{hosts}", primary, nodes[3], others, "{steelyard}")


def _start(stack: ExitStack, folder: Path, port: int, *flags: str) -> Daemon:
    own = folder / str(port)
    own.mkdir()
    kept = ["--dir", str(own), "--save", "", "--repl-diskless-sync-delay", "0"]
    return _daemon(stack, own, port, ["redis-server", *kept, *flags])


def _sentinel(stack: ExitStack, folder: Path, primary: Daemon, *flags: str) -> Daemon:
    port = free_port()
    own = folder / str(port)
    own.mkdir()
    config = own / "sentinel.conf"
    lines = [
        f"dir {own}",
        f"sentinel monitor {NAME} 127.0.0.1 {primary.port} 2",
        f"sentinel down-after-milliseconds {NAME} {DOWN_MS}",
        f"sentinel failover-timeout {NAME} 5000",
    ]
    if "--requirepass" in flags:
        password = flags[flags.index("--requirepass") + 1]
        lines += [f"sentinel auth-pass {NAME} {password}", f"sentinel sentinel-pass {password}"]
    config.write_text("\n".join(lines) + "\n")
    return _daemon(stack, own, port, ["redis-server", str(config), "--sentinel", *flags])


def _daemon(stack: ExitStack, folder: Path, port: int, command: list[str]) -> Daemon:
    tls = "--tls-cert-file" in command
    ports = ["--port", "0", "--tls-port", str(port)] if tls else ["--port", str(port)]
    daemon = Daemon([*command, "--bind", "127.0.0.1", *ports], port, folder / "log")
    stack.callback(daemon.kill)
    daemon.start()
    return daemon


def _ask(daemon: Daemon, *command: str, **connect: Any) -> Any:
    # By the address in the certificates.
    with redis.Redis(host="127.0.0.1", port=daemon.port, **connect) as client:
        return client.execute_command(*command)


def _has_keys(node: Daemon) -> bool:
    """Return whether a controller's keys are on this node."""
    try:
        _ask(node, "GET", "{steelyard}:1:lease")
    except redis.exceptions.ResponseError:  # redis-py 5 has no class for MOVED here
        return False
    return True


def _cli(*arguments: str) -> str:
    done = subprocess.run(
        ["redis-cli", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def certificate(folder: Path) -> tuple[Path, list[str]]:
    """Return a self-signed certificate for 127.0.0.1, and a Redis's flags for it."""
    key, file = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", file, "-days", "1", "-subj", "/CN=redis",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return file, [
        "--tls-cert-file", str(file), "--tls-key-file", str(key), "--tls-ca-cert-file", str(file),
        "--tls-auth-clients", "no",
    ]  # fmt: skip
