"""How a run tells how far it is."""

import io

from steelyard_loadtest.reporting.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_step_has_a_line_with_the_time_left_and_what_came_out() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(stream, steps=2, expected_s=60, clock=clock) as progress:
        progress.begin("nginx")
        progress.end("41 µs")
        progress.say("a remark")
        progress.begin("envoy")
    assert stream.getvalue() == ("1 of 2 · 60 s left · nginx · 41 µs\na remark\n2 of 2 · 30 s left · envoy\n")


def test_after_a_few_steps_the_time_left_follows_the_pace() -> None:
    clock = Clock()
    progress = Progress(io.StringIO(), steps=6, expected_s=60, clock=clock)
    for step in range(3):
        assert progress.left() == f"{60 - 10 * step} s"
        progress.end()
    clock.now_s = 60
    assert progress.left() == "60 s"


def test_what_is_shown_is_written_at_most_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    for tenth in range(250):
        clock.now_s = tenth / 10
        progress.show(f"at {clock.now_s:.0f} s")
    assert stream.getvalue().splitlines() == ["at 0 s", "at 10 s", "at 20 s"]


def test_steps_that_nobody_began_are_counted_by_their_title_in_such_a_line() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(stream, steps=4, title="scale", clock=clock) as progress:
        for step in range(1, 4):
            clock.now_s = 7.0 * step
            progress.end()
        progress.show("none has ended", always=True)
        progress.end()
    assert stream.getvalue() == "scale 1/4 · 21 s left\nscale 3/4 · 7 s left\nnone has ended\n"
