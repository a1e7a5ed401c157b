"""How a run tells how far it is: one changing line on a terminal, plain lines elsewhere."""

import io

from steelyard_loadtest.reporting.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_file_gets_a_line_a_step_with_the_time_left_and_what_came_out() -> None:
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


def test_a_file_gets_a_changing_line_at_most_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    for tenth in range(250):
        clock.now_s = tenth / 10
        progress.show(f"at {clock.now_s:.0f} s")
    assert stream.getvalue().splitlines() == ["at 0 s", "at 10 s", "at 20 s"]


def test_a_terminal_keeps_what_is_said_and_the_changing_line_is_cleared_at_the_end() -> None:
    stream = Terminal()
    with Progress(stream, steps=2, title="scale") as progress:
        progress.begin("[x] one")
        progress.end("PASS", keep=True)
        progress.show("almost")
    written = stream.getvalue()
    assert "[x] one" in written
    assert "1 of 2 · PASS\n" in written
    assert written.rindex("almost") < written.rindex("\x1b[2K")


def test_a_quiet_one_writes_nothing_without_a_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream, steps=2, quiet=True, title="scale") as progress:
        progress.begin("one")
        progress.end("done")
        progress.show("more")
    assert stream.getvalue() == ""
