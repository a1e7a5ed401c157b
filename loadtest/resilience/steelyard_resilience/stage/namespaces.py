"""The hosts' network: namespaces on one bridge, whose packets can be held back between any two (I/O)."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import SetupError

from steelyard_resilience.stage.hosts import OUTSIDE, PREFIX_LENGTH

NAMES = Path("/run/netns")
"""Where `ip netns` keeps namespaces by name; a mount of ours, so that no name meets another stage's."""

BRIDGE = "hosts"

IN_MEMORY = ("-t", "tmpfs", "steelyard-stage", "-o")
"""Of mount(8): a disk of its own, whose options follow."""


class Network:
    """Hosts by name and address, while they are `made`."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._cut: set[frozenset[str]] = set()

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Make the hosts, and take them away at the end. Raises SetupError."""
        network.require_private()
        network.raise_loopback()
        with contextlib.ExitStack() as stack:
            NAMES.mkdir(parents=True, exist_ok=True)
            stack.enter_context(mounted(*IN_MEMORY, "mode=755", at=NAMES))
            _ip(
                f"link add {BRIDGE} type bridge",
                f"address add {OUTSIDE}/{PREFIX_LENGTH} dev {BRIDGE}",
                f"link set {BRIDGE} up",
            )
            stack.callback(_undo, "ip", "link", "delete", BRIDGE)
            for host, address in self._addresses.items():
                _ip(f"netns add {_namespace(host)}")
                stack.callback(_undo, "ip", "netns", "delete", _namespace(host))
                _ip(
                    f"link add {host} type veth peer name eth0 netns {_namespace(host)}",
                    f"link set {host} master {BRIDGE} up",
                )
                _ip(
                    "link set lo up",
                    f"address add {address}/{PREFIX_LENGTH} dev eth0",
                    "link set eth0 up",
                    host=host,
                )
            yield

    def on(self, host: str) -> tuple[str, ...]:
        """Return what runs the rest of a command line on a host."""
        # Not `ip netns exec`, which makes mounts of its own, where later ones of ours would not show.
        return ("nsenter", f"--net={NAMES / _namespace(host)}", "--")

    def cut(self, one: str, other: str) -> None:
        """Let no packet pass between them, silently: connections are not told. Raises SetupError."""
        pair = frozenset((one, other))
        if pair not in self._cut:
            self._cut.add(pair)
            self._change("--insert", one, other)

    def mend(self, one: str, other: str) -> None:
        """Undo a cut; harmless where there is none. Raises SetupError."""
        pair = frozenset((one, other))
        if pair in self._cut:
            self._cut.remove(pair)
            self._change("--delete", one, other)

    def _change(self, what: str, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            rule = ["INPUT", "--source", self._addresses[there], "--jump", "DROP"]
            run(*self.on(here), "iptables", "--wait", what, *rule)


@contextlib.contextmanager
def mounted(*what: str, at: Path) -> Iterator[None]:
    """Mount something at a place, for this program and what it starts. Raises SetupError."""
    run("mount", *what, str(at))
    try:
        yield
    finally:
        # Lazily: a file may still be open, and the mounts are this process's own.
        _undo("umount", "--lazy", str(at))


def _namespace(host: str) -> str:
    return f"sy-{host}"


def _ip(*lines: str, host: str | None = None) -> None:
    where = ["-netns", _namespace(host)] if host else []
    run("ip", *where, "-batch", "-", words="\n".join(lines) + "\n")


def run(*command: str, words: str | None = None) -> None:
    """Run a command of root's. Raises SetupError."""
    try:
        done = subprocess.run(command, input=words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(f"no stage can be made: {error}") from None
    if done.returncode != 0:
        asked = f"{' '.join(command)} {words or ''}".strip()
        raise SetupError(f"no stage can be made: {asked!r} says {done.stderr.strip()!r}")


def _undo(*command: str) -> None:
    # What cannot be undone ends with this process, whose namespaces they all are.
    subprocess.run(command, capture_output=True, check=False)
