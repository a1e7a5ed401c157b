"""The hosts' network: namespaces on one bridge, with cuts between any two of them (I/O)."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import SetupError

from steelyard_resilience.stage.hosts import OUTSIDE, PREFIX_LENGTH

NAMES = Path("/run/netns")
"""Folder of `ip netns` for named namespaces; our own mount of it keeps the names apart from other stages'."""

BRIDGE = "hosts"

IN_MEMORY = ("-t", "tmpfs", "steelyard-stage", "-o")
"""Arguments of mount(8) for a disk in memory; its options follow."""


class Network:
    """Hosts by name and address; they exist inside `made`."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._cut: set[frozenset[str]] = set()

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Make the hosts, and remove them at the end. Raises SetupError."""
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
        """Return the begin of a command line that runs its rest on a host."""
        # `ip netns exec` would make its own mount namespace, in which our later mounts would not appear.
        return ("nsenter", f"--net={NAMES / _namespace(host)}", "--")

    def cut(self, one: str, other: str) -> None:
        """Drop every packet between two hosts, silently: connections stay open. Raises SetupError."""
        pair = frozenset((one, other))
        if pair not in self._cut:
            self._cut.add(pair)
            self._change("--insert", one, other)

    def mend(self, one: str, other: str) -> None:
        """Undo a cut; harmless if there is none. Raises SetupError."""
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
    """Mount something at a place, for this program and its children. Raises SetupError."""
    run("mount", *what, str(at))
    try:
        yield
    finally:
        # A file may still be open, and the mounts are this process's own, so the unmount is lazy.
        _undo("umount", "--lazy", str(at))


def _namespace(host: str) -> str:
    return f"sy-{host}"


def _ip(*lines: str, host: str | None = None) -> None:
    where = ["-netns", _namespace(host)] if host else []
    run("ip", *where, "-batch", "-", words="\n".join(lines) + "\n")


def run(*command: str, words: str | None = None) -> None:
    """Run a command as root. Raises SetupError."""
    try:
        done = subprocess.run(command, input=words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(f"the stage cannot be set up: {error}") from None
    if done.returncode != 0:
        line = f"{' '.join(command)} {words or ''}".strip()
        raise SetupError(f"the stage cannot be set up: {line!r} failed: {done.stderr.strip()!r}")


def _undo(*command: str) -> None:
    # Errors do no harm: the namespaces are this process's own and end with it.
    subprocess.run(command, capture_output=True, check=False)
