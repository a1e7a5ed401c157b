"""A stage without daemons: faults change plain values, so that a test can see them undone."""

import json
from pathlib import Path
from typing import Any, cast

from steelyard_protocol import signature, wire
from steelyard_resilience.stage.stage import Stage

KEY = b"the key of the fake's cluster"

NOW_MS = 1_790_000_000_000


class FakeDaemon:
    """One daemon: it runs or not, is paused or not, and has extra arguments or none."""

    def __init__(self, name: str, host: str, done: list[str]) -> None:
        self.name, self.host = name, host
        self.is_running, self.is_paused = True, False
        self.extra: tuple[str, ...] = ()
        self._done = done

    def state(self) -> tuple[bool, bool, tuple[str, ...]]:
        return self.is_running, self.is_paused, self.extra

    def start(self, *extra: str) -> None:
        assert not self.is_running, f"{self.name} runs already"
        self.is_running, self.extra = True, extra
        self._done.append(f"start {self.name}")

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        self.is_running = self.is_paused = False

    def restart(self, *extra: str) -> None:
        self.stop()
        self.start(*extra)

    def pause(self) -> None:
        assert self.is_running
        self.is_paused = True
        self._done.append(f"pause {self.name}")

    def resume(self) -> None:
        self.is_paused = False

    def signal(self, number: int) -> None:
        self._done.append(f"signal {self.name} {number}")


class FakeStage:
    """The leader publishes a later table at each look for it; refusals are counted."""

    url = "http://10.213.0.10:8080"
    key = KEY

    def __init__(self, folder: Path) -> None:
        self.done: list[str] = []
        hosts = {
            "memcached": "memcached", "redis": "redis", "controller-1": "controller-1",
            "controller-2": "controller-2", "nginx": "edge", "server-1": "server-1", "agent-1": "server-1",
            "server-2": "server-2", "agent-2": "server-2", "server-3": "server-3", "agent-3": "server-3",
            "haproxy": "edge", "reporter": "edge", "envoy": "edge",
        }  # fmt: skip
        self.names = tuple(hosts)
        self._daemons = {name: FakeDaemon(name, host, self.done) for name, host in hosts.items()}
        self.state_dir = folder
        self._cut: set[frozenset[str]] = set()
        self._delays: dict[str, float | str | None] = {}
        self._clocks: dict[str, float] = {}
        self._redis: dict[str, str] = {}
        self._declared: dict[str, Any] = {"law": "steelyard", "check": None, "peers": []}
        self._are_hidden = False
        self._states = {"server-1": "up", "server-2": "up", "server-3": "up"}
        self._generation = 100
        self._term = 1
        self._refused = 0

    def as_stage(self) -> Stage:
        return cast(Stage, self)

    def state(self) -> object:
        daemons = {name: daemon.state() for name, daemon in self._daemons.items()}
        slow = {store: delay_s for store, delay_s in self._delays.items() if delay_s != 0.0}
        off = {host: seconds for host, seconds in self._clocks.items() if seconds}
        files = sorted(path.name for path in self.state_dir.iterdir())
        redis = {name: value for name, value in self._redis.items() if value not in ("0", "NO ONE")}
        declared = dict(self._declared), dict(self._states), self._are_hidden
        return daemons, set(self._cut), slow, off, files, redis, declared

    def daemon(self, name: str) -> FakeDaemon:
        return self._daemons[name]

    def leader(self) -> str | None:
        for name in ("controller-1", "controller-2"):
            if self._daemons[name].is_running and not self._daemons[name].is_paused:
                return name
        return None

    def cut(self, a: str, b: str) -> None:
        self._cut.add(frozenset((a, b)))

    def mend(self, a: str, b: str) -> None:
        self._cut.remove(frozenset((a, b)))

    def slow(self, store: str, delay_s: float | str | None) -> None:
        self._delays[store] = delay_s

    def hide_names(self, are_hidden: bool) -> None:
        self._are_hidden = are_hidden

    def step_clock(self, host: str, seconds: float) -> None:
        self._clocks[host] = seconds

    def status(self) -> dict[str, Any]:
        # The leader is always one term ahead of the terms it has seen.
        upstream = {"refused": {}, "fail_open": False, "peers": [{}] * len(self._states), "term": self._term}
        return {"upstreams": {"web": upstream}, "saved_error": None}

    def api(self, method: str, path: str, document: Any = None, _controller: str | None = None) -> Any:
        rest = path.removeprefix("/v1/upstreams/web")
        self.done.append(f"{method} {rest}")
        match method, rest:
            case "GET", "/declaration":
                return json.dumps(self._declared).encode()
            case "PUT", "":
                self._declared = dict(document)
            case "GET", "":
                return json.dumps({"refused": {"count": {}}}).encode()
            case "PATCH", _:
                self._states[rest.removeprefix("/peers/")] = document["state"]
            case _:
                raise AssertionError(f"{method} {path}")
        return b"{}"

    def ask(self, method: str, path: str, _document: Any, *, port: int) -> tuple[int, bytes]:
        self.done.append(f"{method} {path} at {port}")
        return 401, b""

    def memcached_command(self, command: str | bytes) -> bytes:
        words = command.encode() if isinstance(command, str) else command
        verb, _, rest = words.partition(b" ")
        if verb == b"get":
            value = signature.sign(KEY, self._text(rest.decode()))
            return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (rest, len(value), value)
        self.done.append(verb.decode())
        if verb == b"set" and rest.startswith(wire.weights_key("web").encode()):
            self._term += 1
        return b"OK\r\n" if verb == b"flush_all" else b"STORED\r\n"

    def _text(self, key: str) -> bytes:
        self._generation += 1
        peers = [
            {"id": name, "address": f"10.213.0.4{number}:8100", "weight": 1, "baseline": 1, "state": "up"}
            for number, name in enumerate(self._states, start=1)
        ]
        if key == wire.weights_key("web"):
            table = {"v": 1, "upstream": "web", "term": 1, "generation": self._generation, "peers": peers}
            return json.dumps(table).encode()
        # Another run after each start.
        boot = f"{self._daemons['agent-1'].extra} {len(self.done)}"
        return json.dumps({"boot": boot, "seq": self._generation, "sent_at_ms": NOW_MS}).encode()

    def redis_command(self, *parts: str) -> bool:
        match parts:
            case "CONFIG", "SET", name, value:
                self._redis[name] = value
            case "REPLICAOF", *where:
                self._redis["replicaof"] = " ".join(where)
            case ("FLUSHALL",):
                self.done.append("FLUSHALL")
            case _:
                raise AssertionError(parts)
        return True
