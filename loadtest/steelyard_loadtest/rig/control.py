"""Our controller for one trial: a process that starts empty (I/O)."""

import secrets
from collections.abc import Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process, wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.render import BalancerConfig

WEIGHTS = f"/v1/upstreams/{UPSTREAM}/weights"
PEERS = f"/v1/upstreams/{UPSTREAM}/peers"


class Control:
    """A controller; its constructor starts it, but it need not answer yet. All methods raise ProgramError."""

    def __init__(self, conf: BalancerConfig) -> None:
        self._conf, self._place = conf, conf.place
        place, fed_by = conf.place, conf.algorithm.fed_by
        self._members = set(conf.addresses)
        self._drained: set[str] = set()
        # Data of an earlier trial. These are tables, reports and samples (the agents' are back within a
        # second), the declaration, the law's memory, and the lease, which a new controller would wait for.
        _order(place.memcached_port, "flush_all", "OK")
        _order(place.redis_port, "FLUSHALL", "+OK")
        config = conf.folder / "controller.yaml"
        config.write_text(render.controller(conf))
        self._token = secrets.token_hex(32)
        token_file = conf.folder / "admin_token"
        token_file.touch(mode=0o600)
        token_file.write_text(self._token)
        part = parts.controller(
            place.api_port,
            config,
            memcached=f"{HOST}:{place.memcached_port}",
            state_url=f"redis://{HOST}:{place.redis_port}/0",
            admin_token_file=token_file,
            log_level="warning",
            agent_check_port=place.follow_port if fed_by == "agent-check" else None,
            xds_port=place.follow_port if fed_by == "xds" else None,
        )
        log = conf.folder / "controller.log"
        log.write_text("")  # the previous one's last words are not this one's
        self.process = Process(part.command, log)

    def wait(self) -> None:
        """Wait until it has decided on weights."""
        wait_until(self._why_not_yet, [self.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Declare and forget servers until only these are left."""
        wanted = set(names)
        for name in sorted(wanted - self._members):
            self._change("PUT", name, render.peer(self._conf, name))
        for name in sorted(self._members - wanted):
            self._change("DELETE", name)
        self._members = wanted

    def drain(self, names: Sequence[str]) -> None:
        """Let these servers, and no others, get no new requests, through HAProxy's agent-check."""
        wanted = set(names)
        for name in sorted(wanted ^ self._drained):
            self._change("PATCH", name, {"state": "drain" if name in wanted else "up"})
        self._drained = wanted

    def _why_not_yet(self) -> str | None:
        why = http_ask.why_not_ok(HOST, self._place.api_port, WEIGHTS)
        return why and f"the controller has no weights: {why}"

    def _change(self, method: str, name: str, document: object = None) -> None:
        path = f"{PEERS}/{name}"
        status, body = http_ask.ask(
            HOST, self._place.api_port, path, method=method, document=document, token=self._token
        )
        if status not in (200, 201, 204):
            raise ProgramError(f"the controller answers {status} to {method} {path}: {body[:300]!r}")


def _order(port: int, words: str, wanted: str) -> None:
    """Say one line to Memcached or Redis, which must answer with the line that is wanted."""
    answer = http_ask.ask_line(HOST, port, words)
    if answer != wanted:
        raise ProgramError(f"port {port} answers {words} with {answer!r}, not {wanted!r}")
