"""Server-sent events: a page's view, as things happen."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from steelyard_controller.api import streams
from steelyard_controller.api.middleware import GRANT
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.streams import (
    MAX_STREAMS,
    OF_ONE_CLIENT,
    WITHOUT_TOKEN,
    Client,
    Ended,
    Streams,
    client_of,
)
from steelyard_controller.api.tokens import ANYBODY, Grant

from testing.waiting import PATIENCE_S, wait_until

from ..processes import LOCAL, Controller, Listener, asked_for_a_stream, controller, own_token
from .serving import NO_MEMCACHED, WEB

ONE = Client("127.0.0.1", has_token=False)
HOLDER = Client("the token ann", has_token=True)


@pytest.fixture(scope="module")
def leader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with leading(tmp_path_factory.mktemp("leader")) as one:
        yield one


@contextlib.contextmanager
def leading(folder: Path) -> Iterator[Controller]:
    with controller(folder, "--state-url", "memory://", "--memcached", NO_MEMCACHED) as one:
        one.wait("leader")
        LOCAL.put(f"{one.url}/v1/upstreams/web", json=WEB, headers=own_token())
        LOCAL.put(f"{one.url}/v1/upstreams/shop", json=WEB, headers=own_token())
        one.wait_decided("/v1/upstreams/shop")
        yield one


@pytest.mark.integration
def test_the_role_comes_first_then_each_upstream_as_it_is_then_each_tick(leader: Controller) -> None:
    heard = Listener(leader.url)
    wait_until(lambda: len(heard.events) >= 7)
    assert heard.kinds()[0] == "role"
    assert json.loads(heard.of("role")[0])["role"] == "leader"
    ticks = [json.loads(data) for data in heard.of("tick")]
    assert {tick["upstream"] for tick in ticks[:2]} == {"web", "shop"}
    webs = [tick["generation"] for tick in ticks if tick["upstream"] == "web"]
    assert webs == sorted(webs)
    # A stream has the faults of the controller in `role`.
    assert set(ticks[0]) >= set(LOCAL.get(f"{leader.url}/v1/upstreams/web").json()) - {"controller"}


@pytest.mark.integration
def test_a_tick_has_the_servers_that_are_asked_for_and_the_totals_of_all(leader: Controller) -> None:
    heard = Listener(leader.url, "/v1/events?upstream=web&search=2&limit=1")
    whole = Listener(leader.url, "/v1/events?upstream=web")
    wait_until(lambda: len(heard.of("tick")) >= 2 and len(whole.of("tick")) >= 2)
    for tick in map(json.loads, heard.of("tick")):
        assert ([peer["id"] for peer in tick["peers"]], tick["matching"]) == (["server-2"], 1)
        assert tick["totals"]["servers"] == 2
    assert len(json.loads(whole.of("tick")[0])["peers"]) == 2


@pytest.mark.integration
def test_a_change_is_told_and_only_the_upstream_that_was_asked_for(leader: Controller) -> None:
    def set_state(state: str) -> None:
        for upstream in ("shop", "web"):
            peer = f"{leader.url}/v1/upstreams/{upstream}/peers/server-1"
            LOCAL.patch(peer, json={"state": state}, headers=own_token())

    set_state("up")  # the controller is the module's: a run before this one may have left it draining
    revision = LOCAL.get(f"{leader.url}/v1/upstreams/web").json()["revision"]
    heard = Listener(leader.url, "/v1/events?upstream=web")
    wait_until(lambda: "tick" in heard.kinds())
    set_state("drain")
    wait_until(lambda: "change" in heard.kinds())
    assert json.loads(heard.of("change")[0]) == {
        "upstream": "web", "revision": revision + 1, "what": "server-1: state up -> drain"
    }  # fmt: skip
    assert {json.loads(data)["upstream"] for data in heard.of("tick")} == {"web"}


@pytest.mark.integration
def test_who_connects_again_is_told_what_changed_meanwhile(leader: Controller) -> None:
    def lines(last: str | None, until: str) -> list[str]:
        """Return the lines of a stream up to one with this beginning."""
        given = {} if last is None else {"Last-Event-ID": last}
        with LOCAL.stream("GET", f"{leader.url}/v1/events?upstream=web", headers=given) as answer:
            seen: list[str] = []
            for line in answer.iter_lines():
                seen.append(line)
                if line.startswith(until):
                    break
            return seen

    last = next(line for line in lines(None, "event: role") if line.startswith("id: ")).removeprefix("id: ")
    peer = f"{leader.url}/v1/upstreams/web/peers/server-2"
    for state in ("drain", "up"):
        LOCAL.patch(peer, json={"state": state}, headers=own_token()).raise_for_status()
    again = lines(last, "event: tick")
    assert [line for line in again if line.startswith("event: ")] == [
        "event: role", "event: change", "event: change", "event: tick"
    ]  # fmt: skip
    assert "event: gap" in lines("0badcafe-7", "event: gap")


@pytest.mark.integration
def test_open_streams_do_not_keep_a_controller_from_stopping(tmp_path: Path) -> None:
    with leading(tmp_path) as leader:
        heard = [Listener(leader.url) for _ in range(3)]
        wait_until(lambda: all("tick" in each.kinds() for each in heard))
        leader.stop()
        assert all(each.ended.wait(PATIENCE_S) for each in heard)
        assert "Cancel" not in leader.log.read_text(), "a stream had to be cut"


@pytest.mark.integration
def test_a_client_that_is_gone_costs_nothing(leader: Controller) -> None:
    for _ in range(3):
        with LOCAL.stream("GET", f"{leader.url}/v1/events") as answer:
            assert answer.headers["content-type"].startswith(streams.MEDIA_TYPE)
            next(answer.iter_raw())
    assert LOCAL.get(f"{leader.url}/healthz").status_code == 200
    assert "Traceback" not in leader.log.read_text()


@pytest.mark.integration
def test_no_client_takes_all_streams_and_places_are_kept_for_tokens(tmp_path: Path) -> None:
    async def session(url: str) -> None:
        opened: list[asyncio.StreamWriter] = []

        async def statuses(client: str, count: int, headers: str = "") -> Counter[int]:
            # At once: a stream counts from its acceptance, not from its first byte.
            answers = await asyncio.gather(*(asked_for_a_stream(url, client, headers) for _ in range(count)))
            opened.extend(writer for _, _, writer in answers)
            return Counter(status for status, _, _ in answers)

        own = OF_ONE_CLIENT
        assert await statuses("127.0.0.2", 110) == {200: own, 429: 110 - own}
        assert await statuses("127.0.0.3", 1, "X-Forwarded-For: 10.0.0.1\r\n") == {200: 1}
        assert await statuses("127.0.0.4", 110) == {
            200: WITHOUT_TOKEN - own - 1,
            429: 111 + own - WITHOUT_TOKEN,
        }
        _, head, writer = await asked_for_a_stream(url, "127.0.0.5")
        opened.append(writer)
        assert b"retry-after: 5\r\n" in head
        assert b"connection: close\r\n" in head
        token = "Authorization: {Authorization}\r\n".format(**own_token())
        kept = MAX_STREAMS - WITHOUT_TOKEN
        assert await statuses("127.0.0.2", kept + 5, token) == {200: kept, 429: 5}
        for writer in opened:
            writer.close()

    with leading(tmp_path) as one:
        asyncio.run(session(one.url))
        assert "127.0.0.2 has 40 event streams open, the most for one client" in one.log.read_text()
        wait_until(lambda: asyncio.run(_ask_once(one.url)) == 200)


async def _ask_once(url: str) -> int:
    status, _, writer = await asked_for_a_stream(url, "127.0.0.5")
    writer.close()
    return status


def test_a_stream_that_is_waited_for_ends_with_the_controller() -> None:
    async def session() -> None:
        streams = Streams()
        silent: asyncio.Queue[int] = asyncio.Queue()
        waiting = asyncio.create_task(streams.wait(silent.get()))
        await asyncio.sleep(0)
        streams.end()
        with pytest.raises(Ended):
            await waiting
        with pytest.raises(Ended):
            await streams.wait(silent.get())
        with pytest.raises(ProblemError, match="this controller stops"), streams.place(ONE):
            pass

    asyncio.run(session())


def test_what_is_waited_for_comes_or_is_late_and_nothing_is_lost() -> None:
    async def session() -> None:
        streams = Streams()
        queue: asyncio.Queue[int] = asyncio.Queue()
        with pytest.raises(TimeoutError):
            await streams.wait(queue.get(), timeout_s=0.001)
        queue.put_nowait(1)
        assert await streams.wait(queue.get(), timeout_s=5) == 1

    asyncio.run(session())


def test_streams_are_counted_while_they_are_open() -> None:
    streams = Streams(most=3, without_token=2, of_one_client=2, clock=lambda: 0.0)
    with streams.place(ONE), streams.place(ONE):
        assert _refusal(streams, ONE) == (
            "127.0.0.1 has 2 event streams open, the most for one client: close some, or use plain requests"
        )
        assert "the others are kept for clients with a token" in _refusal(streams, Client("127.0.0.2", False))
        with streams.place(HOLDER):
            assert "3 event streams are open, the most there may be" in _refusal(streams, HOLDER)
    assert streams.count == 0
    with streams.place(ONE), streams.place(ONE):
        pass
    with streams.place(ONE), pytest.raises(ProblemError), streams.place(ONE, of_one_client=1):
        pass
    assert streams.count == 0


def _refusal(streams: Streams, client: Client) -> str:
    with pytest.raises(ProblemError) as error, streams.place(client):
        pass
    assert error.value.status_code == 429
    assert error.value.headers == {"Retry-After": "5", "Connection": "close"}
    return str(error.value.detail)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fd00:1:2:3:4:5:6:7", "fd00:1:2:3::/64"),
        ("a.sock", "a.sock"),
    ],
)
def test_a_client_without_a_token_is_its_host(address: str, name: str) -> None:
    assert client_of({"client": (address, 4711)}) == Client(name, has_token=False)


def test_a_client_with_a_token_is_the_holder() -> None:
    grant = Grant(name="ann@example.org", scopes=frozenset({"drain"}))
    assert client_of({"client": ("10.0.0.1", 1), GRANT: grant}) == Client(
        "the token ann@example.org", has_token=True
    )
    assert client_of({"client": None, GRANT: ANYBODY.within(["read"])}) == Client("a socket", has_token=False)
