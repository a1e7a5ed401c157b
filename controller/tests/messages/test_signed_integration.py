"""A shared key from end to end: a real agent, a real controller, a real Memcached, and a forger."""

import asyncio
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from prometheus_client.parser import text_string_to_metric_families
from pymemcache.client.base import Client
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.store.interface import Store
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_protocol import derived_keys, signature, weight_table, wire
from steelyard_protocol.weight_table import WeightTable

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import wait_until

from ..examples import report, sample
from ..session import Session, session

pytestmark = pytest.mark.integration


KEY = b"an example key, never a real one"
WEB = Upstream(peers=[Peer(id=name, address=f"10.0.0.{n}:80", baseline=1) for n, name in enumerate("abc", 1)])
NOW_S = 1_790_000_000


class Pipeline:
    """Memcached, for any program that can reach it."""

    def __init__(self, memcached: Daemon) -> None:
        self._address = ("127.0.0.1", memcached.port)

    def get(self, key: str) -> bytes | None:
        client = Client(self._address)
        value: bytes | None = client.get(key)
        client.close()
        return value

    def put(self, key: str, value: bytes) -> None:
        client = Client(self._address)
        client.set(key, value, noreply=False)
        client.close()

    def put_tick(self, tick: int, *, cpu_of_a: float, seal: Callable[[bytes], bytes]) -> None:
        for peer in "abc":
            cpu = cpu_of_a if peer == "a" else 0.3
            self.put(wire.sample_key("web", peer), seal(sample(peer, seq=tick, cpu=cpu)))
        row = (100, 0, 1, 5.0)
        self.put(wire.traffic_key("web", "edge-1"), seal(report(seq=tick, a=row, b=row, c=row)))

    def table(self, key: bytes | None = KEY) -> WeightTable:
        value = self.get(wire.weights_key("web"))
        assert value is not None
        table = signature.read(key, value, weight_table.decode)
        assert isinstance(table, WeightTable), table
        return table


def _sealed(text: bytes) -> bytes:
    return signature.sign(KEY, text)


def _run(
    memcached: Daemon,
    steps: Callable[[Session], Awaitable[None]],
    *,
    key: bytes | None = KEY,
    store: Store | None = None,
    unix_s: int = NOW_S,
) -> None:
    async def run() -> None:
        kept = store or MemoryStore()
        async with session(memcached, None, file={"web": WEB}, store=kept, key=key, unix_s=unix_s) as it:
            await it.lead()
            await steps(it)

    asyncio.run(run())


async def _once(it: Session) -> None:
    await it.tick(1.0)


def test_signed_samples_move_the_weights_and_the_table_is_signed(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)

    async def steps(it: Session) -> None:
        for tick in range(1, 12):
            pipeline.put_tick(tick, cpu_of_a=0.9, seal=_sealed)
            await it.tick(float(tick))
        assert it.outcome.inbox.refused == {}

    _run(memcached, steps)
    a, b, _ = (peer.weight for peer in pipeline.table().peers)
    assert a * 2 < b


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda text: text, "unsigned"),
        (lambda text: signature.sign(b"x" * 32, text), "signature"),
        (lambda text: signature.digest(KEY, b"something else").encode() + b"." + text, "signature"),
    ],
    ids=["unsigned", "another key", "another text's signature"],
)
def test_forged_samples_and_reports_move_nothing_and_are_counted(
    memcached: Daemon, forge: Callable[[bytes], bytes], reason: str
) -> None:
    pipeline = Pipeline(memcached)

    async def steps(it: Session) -> None:
        for tick in range(1, 12):
            pipeline.put_tick(tick, cpu_of_a=0.9, seal=forge)
            await it.tick(float(tick))
        assert it.outcome.inbox.refused == {reason: 4 * 11}
        assert {refusal.reason for refusal in it.outcome.inbox.refusals.values()} == {reason}

    _run(memcached, steps)
    assert [peer.weight for peer in pipeline.table().peers] == [334, 333, 333]


def test_a_controller_without_a_key_refuses_signed_values(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)

    async def steps(it: Session) -> None:
        pipeline.put_tick(1, cpu_of_a=0.9, seal=_sealed)
        outcome = await it.tick(1.0)
        assert outcome.inbox.refused == {"signed": 4}

    _run(memcached, steps, key=None)


def test_a_restart_takes_the_order_from_the_signed_table(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)
    _run(memcached, _once)
    before = pipeline.table()
    _run(memcached, _once)
    assert pipeline.table().order == (before.term + 1, before.generation + 1)


@pytest.mark.parametrize("seal", [lambda text: text, lambda text: signature.sign(b"x" * 32, text)])
def test_a_forged_table_does_not_choose_the_order(
    memcached: Daemon, caplog: pytest.LogCaptureFixture, seal: Callable[[bytes], bytes]
) -> None:
    pipeline, store = Pipeline(memcached), MemoryStore()
    _run(memcached, _once, store=store)
    order = pipeline.table().order
    forged = WeightTable(
        upstream="web", term=2**52, generation=2**52, issued_at_ms=0, law="x", picker="x", peers=()
    )
    pipeline.put(wire.weights_key("web"), seal(weight_table.encode(forged)))

    async def steps(it: Session) -> None:
        outcome = await it.tick(1.0)
        assert sum(outcome.inbox.refused.values()) == 1

    _run(memcached, steps, store=store)
    assert pipeline.table().order == (order[0] + 1, order[1] + 1)
    assert len([line for line in caplog.messages if "the published weight table is refused" in line]) == 1


def test_a_signed_table_of_another_upstream_does_not_choose_the_order(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)
    other = WeightTable(
        upstream="api", term=2**52, generation=2**52, issued_at_ms=0, law="x", picker="x", peers=()
    )
    pipeline.put(wire.weights_key("web"), _sealed(weight_table.encode(other)))
    _run(memcached, _once)
    assert pipeline.table().order == (NOW_S, 1)


def test_an_old_table_that_is_put_back_does_not_send_the_order_backwards(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)
    _run(memcached, _once)
    old = pipeline.get(wire.weights_key("web"))
    assert old is not None
    for restart in range(1, 4):
        _run(memcached, _once, unix_s=NOW_S + 10 * restart)
    newest = pipeline.table()
    pipeline.put(wire.weights_key("web"), old)
    _run(memcached, _once, unix_s=NOW_S + 100)
    assert pipeline.table().order > newest.order


def _play(pipeline: Pipeline, boot: str, seq: int, *, at_ms: int, cpu_of_a: float) -> dict[str, bytes]:
    """Put the messages of agents and nginx for one tick; return the values, for a recording."""
    row = (100, 0, 1, 5.0)
    values = {
        wire.sample_key("web", peer): _sealed(
            sample(peer, boot=boot, seq=seq, taken_at_ms=at_ms, cpu=cpu_of_a if peer == "a" else 0.3)
        )
        for peer in "abc"
    }
    values[wire.traffic_key("web", "edge-1")] = _sealed(
        report(boot=boot, seq=seq, sent_at_ms=at_ms, a=row, b=row, c=row)
    )
    for name, value in values.items():
        pipeline.put(name, value)
    return values


def test_recordings_of_an_earlier_run_move_nothing_and_are_shown(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)
    now_ms = time.time_ns() // 1_000_000

    async def steps(it: Session) -> None:
        recorded = []
        for tick in range(1, 6):
            recorded.append(_play(pipeline, "b1", tick, at_ms=now_ms - 3_600_000, cpu_of_a=0.9))
            await it.tick(float(tick))
        for tick in range(6, 12):
            _play(pipeline, "b2", tick, at_ms=now_ms, cpu_of_a=0.3)
            await it.tick(float(tick))
        assert it.outcome.inbox.refused == {}
        held = it.outcome.inbox
        for tick, values in enumerate(recorded, 12):
            for name, value in values.items():
                pipeline.put(name, value)
            outcome = await it.tick(float(tick))
            assert (outcome.inbox.samples, outcome.inbox.reports) == (held.samples, held.reports)
        assert outcome.inbox.refused == {"replayed": 4 * 5}
        assert set(outcome.inbox.refusals) == {
            "sample of a", "sample of b", "sample of c", "traffic report of edge-1"
        }  # fmt: skip
        _play(pipeline, "b2", 12, at_ms=now_ms, cpu_of_a=0.3)
        assert (await it.tick(17.0)).inbox.refusals == {}

    _run(memcached, steps)


def test_a_standby_that_takes_over_knows_from_redis_what_is_old(
    memcached: Daemon, redis_server: Daemon
) -> None:
    pipeline = Pipeline(memcached)
    now_ms = time.time_ns() // 1_000_000
    day_ms = 86_400_000

    async def run() -> None:
        file = {"web": WEB}
        async with session(memcached, redis_server, file=file, key=KEY) as first:
            await first.lead()
            recorded = _play(pipeline, "b1", 1, at_ms=now_ms - day_ms, cpu_of_a=0.9)
            await first.tick(1.0)
            _play(pipeline, "b2", 1, at_ms=now_ms, cpu_of_a=0.3)
            await first.tick(2.0)
            assert first.election.lease is not None
            await first.loop.save_last(first.election.lease)
        async with session(memcached, redis_server, file=file, key=KEY, id="b") as second:
            await second.lead()
            for name, value in recorded.items():
                pipeline.put(name, value)
            outcome = await second.tick(1.0)
            assert outcome.inbox.refused == {"replayed": 4}
            assert (dict(outcome.inbox.samples), dict(outcome.inbox.reports)) == ({}, {})
            _play(pipeline, "b2", 2, at_ms=now_ms + 1000, cpu_of_a=0.3)
            outcome = await second.tick(2.0)
            assert set(outcome.inbox.samples) == set("abc")
            assert outcome.inbox.refusals == {}

    asyncio.run(run())


def test_an_old_signed_table_and_a_wiped_redis_do_not_send_the_order_backwards(
    memcached: Daemon, redis_server: Daemon
) -> None:
    pipeline = Pipeline(memcached)

    async def publish(unix_s: int) -> None:
        file = {"web": WEB}
        async with session(memcached, redis_server, file=file, key=KEY, lease_s=1.5, unix_s=unix_s) as it:
            await it.lead()
            await it.tick(1.0)

    asyncio.run(publish(NOW_S))
    recorded = pipeline.get(wire.weights_key("web"))
    assert recorded is not None
    asyncio.run(publish(NOW_S + 3600))
    newest = pipeline.table()
    by_hand = redis_client.Redis(port=redis_server.port)
    by_hand.flushall()
    by_hand.close()
    pipeline.put(wire.weights_key("web"), recorded)
    asyncio.run(publish(NOW_S + 3610))
    assert pipeline.table().term == NOW_S + 3610
    assert pipeline.table().order > newest.order


def test_an_old_table_that_is_put_back_under_a_leader_is_gone_after_its_next_tick(memcached: Daemon) -> None:
    pipeline = Pipeline(memcached)

    async def steps(it: Session) -> None:
        await it.tick(1.0)
        recorded = pipeline.get(wire.weights_key("web"))
        assert recorded is not None
        await it.tick(2.0)
        newest = pipeline.table()
        pipeline.put(wire.weights_key("web"), recorded)
        await it.tick(3.0)
        assert pipeline.table().order == (newest.term, newest.generation + 1)

    _run(memcached, steps)


@contextmanager
def _running(command: Sequence[str], log: Path, **environment: str) -> Iterator[None]:
    with (
        log.open("wb") as output,
        warm_start.Popen(
            [sys.executable, "-m", *command], stdout=output, stderr=output, env={**os.environ, **environment}
        ) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def _fetched(url: str) -> tuple[bytes, str | None] | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
            return answer.read(), answer.headers.get("Steelyard-Signature")
    except (urllib.error.URLError, OSError):
        return None


def test_a_real_agent_and_controller_share_a_key_and_a_forger_is_shown(
    memcached: Daemon, tmp_path: Path
) -> None:
    port, pipeline, log = free_port(), Pipeline(memcached), tmp_path / "controller.log"
    key, config = tmp_path / "key", tmp_path / "steelyard.yaml"
    key.write_bytes(KEY + b"\n")
    key.chmod(0o600)
    peers = ", ".join(f"{{id: {name}, address: '10.0.0.{n}:80'}}" for n, name in enumerate("abc", 1))
    config.write_text(f"upstreams: {{web: {{law: static, peers: [{peers}]}}}}\n")
    controller = [
        "steelyard_controller", "--config", str(config), "--memcached", memcached.address, "--tick-s", "0.1",
        "--state-url", "memory://", "--api-port", str(port), "--key-file", str(key),
    ]  # fmt: skip
    agent = ["steelyard_agent", "--memcached", memcached.address, "--interval", "0.1"]
    pipeline.put(wire.sample_key("web", "c"), sample("c", capacity=(60.0, None, None, None)))
    url = f"http://127.0.0.1:{port}"

    def overview() -> dict[str, Any]:
        body, _ = wait_until(lambda: _fetched(f"{url}/v1/upstreams/web"), log.read_text)
        document: dict[str, Any] = json.loads(body)
        return document

    def measured() -> dict[str, Any] | None:
        document = overview()
        return document if all(peer["utilization"] for peer in document["peers"][:2]) else None

    with (
        _running(controller, log),
        _running(
            [*agent, "--peer", "a", "--cpu-limit", "6"],
            tmp_path / "a.log",
            STEELYARD_AGENT_KEY=KEY.decode(),
        ),
        _running(
            [*agent, "--peer", "b", "--cpu-limit", "2"],
            tmp_path / "b.log",
            STEELYARD_AGENT_KEY_FILE=str(key),
        ),
    ):
        document = wait_until(measured, log.read_text)
        # The agents' samples give a more than b; the forged ones for c give it nothing.
        a, b, c = document["peers"]
        assert a["weight"] > c["weight"] > b["weight"]
        assert (c["weight"], c["utilization"]) == (333, None)
        assert document["refused"]["now"]["sample of c"].startswith("unsigned: ")
        body, digest = wait_until(lambda: _fetched(f"{url}/v1/upstreams/web/weights"), log.read_text)
        assert digest == signature.digest(KEY, body)
        assert pipeline.table().law == "static"
        metrics, _ = wait_until(lambda: _fetched(f"{url}/metrics"), log.read_text)
    families = {family.name: family for family in text_string_to_metric_families(metrics.decode())}
    refused = {each.labels["reason"] for each in families["steelyard_refused"].samples if each.value > 0}
    assert refused == {"unsigned"}
    for written in tmp_path.glob("*.log"):
        assert KEY.decode() not in written.read_text()


def test_a_server_that_is_taken_over_speaks_for_itself_alone(memcached: Daemon, tmp_path: Path) -> None:
    port, pipeline, log = free_port(), Pipeline(memcached), tmp_path / "controller.log"
    config = tmp_path / "steelyard.yaml"
    config.write_text("upstreams: {web: {law: static, peers: []}}\n")
    controller = [
        "steelyard_controller", "--config", str(config), "--memcached", memcached.address, "--tick-s", "0.3",
        "--state-url", "memory://", "--api-port", str(port), "--derived-keys", "require",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    key = {name: derived_keys.derive(KEY, f"agent web/{name}").decode() for name in "ab"}
    token = {name: derived_keys.token(KEY, "web", name) for name in "ab"}

    def agent(peer: str, *, holds: str) -> Any:
        command = [
            "steelyard_agent", "--memcached", memcached.address, "--interval", "0.3", "--peer", peer,
            "--scope", "host", "--register", url, "--address", f"10.0.0.{ord(peer)}:80",
        ]  # fmt: skip
        given = {"STEELYARD_AGENT_KEY": key[holds], "STEELYARD_AGENT_TOKEN": token[holds]}
        return _running(command, tmp_path / f"{peer}-{holds}.log", **given)

    def peers() -> dict[str, Any]:
        body, _ = _fetched(f"{url}/v1/upstreams/web") or (b'{"peers": []}', None)
        return {peer["id"]: peer for peer in json.loads(body)["peers"]}

    def logs() -> str:
        return "\n".join(f"{each.name}:\n{each.read_text()}" for each in tmp_path.glob("*.log"))

    with _running(controller, log, STEELYARD_KEY=KEY.decode()):
        with agent("a", holds="a"), agent("b", holds="b"):
            wait_until(lambda: all(peers().get(name, {}).get("utilization") for name in "ab"), logs)
        # With a's key, a program makes no sample of b, registers no c, and signs no table.
        with agent("b", holds="a"):
            forged = "sample of b refused (signature): it is not signed with its own key"
            wait_until(lambda: forged in log.read_text(), log.read_text)
            said = "may register and remove a of web alone"
            wait_until(lambda: said in (tmp_path / "b-a.log").read_text(), log.read_text)
        with agent("c", holds="a"):
            wait_until(lambda: said in (tmp_path / "c-a.log").read_text(), log.read_text)
        assert set(peers()) == {"a", "b"}
        value = pipeline.get(wire.weights_key("web"))
        assert value is not None
        opened = {
            name for name, each in (("a", key["a"].encode()), ("tables", derived_keys.derive(KEY, "tables")))
            if isinstance(signature.read(each, value, weight_table.decode), WeightTable)
        }  # fmt: skip
        assert opened == {"tables"}
    for written in tmp_path.glob("*.log"):
        assert not any(secret in written.read_text() for secret in (*key.values(), *token.values()))


def test_a_wrong_key_file_is_one_line_and_exits_2(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("short\n")
    ran = warm_start.run([sys.executable, "-m", "steelyard_controller", "--key-file", str(key)])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"steelyard-controller: the key file {key}: a key has at least 16 bytes, and this one has 5: "
        "make one with `openssl rand -hex 32`\n"
    )
