from steelyard_controller.events import MOST_WAITING, Event, Listeners


def drained(queue: object) -> list[bytes]:
    events = []
    while not queue.empty():  # type: ignore[attr-defined]
        events.append(queue.get_nowait().data)  # type: ignore[attr-defined]
    return events


def test_a_listener_gets_what_concerns_his_upstream_and_the_whole_controller() -> None:
    listeners = Listeners()
    with listeners.subscribe("web") as web, listeners.subscribe(None) as everything:
        listeners.publish(Event("tick", "web", b"1"))
        listeners.publish(Event("tick", "api", b"2"))
        listeners.publish(Event("role", None, b"3"))
        assert (drained(web), drained(everything)) == ([b"1", b"3"], [b"1", b"2", b"3"])
        assert listeners.any_for("api")
    assert not listeners.any_for("web")


def test_a_slow_listener_loses_the_oldest_and_keeps_nobody_waiting() -> None:
    listeners = Listeners()
    with listeners.subscribe("web") as slow:
        for number in range(MOST_WAITING + 5):
            listeners.publish(Event("tick", "web", b"%d" % number))
        assert drained(slow) == [b"%d" % number for number in range(5, MOST_WAITING + 5)]
