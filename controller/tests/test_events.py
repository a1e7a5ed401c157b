import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from steelyard_controller.events import Event, Listeners, Subscriber


async def heard(subscriber: Subscriber) -> list[tuple[str, bytes]]:
    """Return the kinds and documents of all events that a subscriber has not had yet."""
    events: list[Event] = []
    while True:
        waiting = asyncio.ensure_future(subscriber.next())
        await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            return [(event.kind, event.data) for event in events]
        events.append(waiting.result())


def run(steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(steps())


def test_a_listener_gets_what_concerns_his_upstream_and_the_whole_controller() -> None:
    async def steps() -> None:
        listeners = Listeners()
        with listeners.subscribe("web") as web, listeners.subscribe(None) as everything:
            listeners.show("web", b"1")
            listeners.show("api", b"2")
            listeners.publish("role", None, b"3")
            listeners.publish("change", "api", b"4")
            assert await heard(web) == [("role", b"3"), ("tick", b"1")]
            assert await heard(everything) == [
                ("role", b"3"),
                ("change", b"4"),
                ("tick", b"1"),
                ("tick", b"2"),
            ]
            assert listeners.any_for("api")
        assert not listeners.any_for("web")

    run(steps)


def test_a_slow_listener_gets_every_change_and_of_each_upstream_the_newest_overview() -> None:
    async def steps() -> None:
        listeners = Listeners()
        with listeners.subscribe(None) as slow:
            for number in range(500):
                listeners.show("web", b"web %d" % number)
                listeners.show("api", b"api %d" % number)
            listeners.publish("change", "web", b"1")
            listeners.publish("change", "api", b"2")
            changes, ticks = (
                [("change", b"1"), ("change", b"2")],
                [("tick", b"web 499"), ("tick", b"api 499")],
            )
            assert await heard(slow) == [*changes, *ticks]
            listeners.show("api", b"api 500")
            assert await heard(slow) == [("tick", b"api 500")]

    run(steps)


def test_a_listener_that_comes_gets_what_others_have_been_shown_and_nothing_is_kept_for_nobody() -> None:
    async def steps() -> None:
        listeners = Listeners()
        listeners.show("web", b"0")
        with listeners.subscribe("web") as first:
            assert await heard(first) == []
            listeners.show("web", b"1")
            with listeners.subscribe(None) as second:
                assert await heard(second) == [("tick", b"1")]
            assert listeners.overview("web") == b"1"
        assert listeners.overview("web") is None

    run(steps)


def test_who_was_away_goes_on_after_the_last_change_that_he_heard_of() -> None:
    async def steps() -> None:
        listeners = Listeners()
        listeners.publish("change", "web", b"1")
        with listeners.subscribe(None) as before:
            last = before.id
        listeners.publish("change", "web", b"2")
        listeners.publish("change", "api", b"3")
        with listeners.subscribe(None, after=last) as again:
            assert again.id == last
            assert [(await again.next()).id, (await again.next()).data] == [listeners.id_of(2), b"3"]
            assert await heard(again) == []
        with listeners.subscribe("web", after=last) as web:
            assert await heard(web) == [("change", b"2")]

    run(steps)


def test_changes_that_are_not_kept_any_more_are_told_of_as_a_gap() -> None:
    async def steps() -> None:
        listeners = Listeners(most_kept=3)
        with listeners.subscribe(None) as behind:
            for number in range(1, 6):
                listeners.publish("change", "web", b"%d" % number)
            gap = await behind.next()
            assert (gap.kind, json.loads(gap.data), gap.id) == ("gap", {"missed": 2}, listeners.id_of(2))
            assert await heard(behind) == [("change", b"%d" % number) for number in (3, 4, 5)]

    run(steps)


def test_who_heard_another_controller_last_or_sends_no_id_of_ours_is_told_of_a_gap() -> None:
    async def steps() -> None:
        listeners = Listeners(boot="0000000a")
        listeners.publish("change", "web", b"1")
        for unknown in ("0000000b-1", "0000000a-2", "0000000a", "", "x" * 9000, "0000000a-\u0663"):
            with listeners.subscribe(None, after=unknown) as again:
                assert (await heard(again))[0] == ("gap", b'{"missed": null}')

    run(steps)


def test_each_view_of_an_upstream_is_told_of_alone_and_of_what_was_shown_of_it_before() -> None:
    async def steps() -> None:
        listeners = Listeners()
        with listeners.subscribe("web", view="page 1") as one, listeners.subscribe("web") as whole:
            assert listeners.views_of("web") == {"page 1", None}
            listeners.show("web", b"1", "page 1")
            listeners.show("web", b"2")
            listeners.show("web", b"3", "page 9")
            assert (await heard(one), await heard(whole)) == ([("tick", b"1")], [("tick", b"2")])
            with listeners.subscribe("web", view="page 1") as again:
                assert await heard(again) == [("tick", b"1")]
        assert listeners.overview("web", "page 1") is None

    run(steps)
