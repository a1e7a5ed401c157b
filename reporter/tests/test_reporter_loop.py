"""The reporter acts at the common instants, follows in between, and does not repeat a missed tick."""

import itertools

from steelyard_reporter.loop import run


class Clock:
    """A clock moved by waiting only; `wall` is it plus an offset."""

    def __init__(self) -> None:
        self.now_s = 1000.3
        self.done: list[tuple[str, float]] = []
        self.slow_s: list[float] = []

    def report(self) -> None:
        """Note it, and take as long as is asked for."""
        self.done.append(("report", self.now_s))
        self.now_s += self.slow_s.pop() if self.slow_s else 0.0

    def follow(self) -> None:
        """Note it."""
        self.done.append(("follow", self.now_s))

    def wait(self, timeout_s: float) -> bool:
        """Pass the time; stop after eight acts."""
        self.now_s += timeout_s
        return len(self.done) >= 8


def _run(clock: Clock) -> list[tuple[str, float]]:
    run(
        "edge-1", 1.0, report=clock.report, follow=clock.follow,
        clock=lambda: clock.now_s, wall_clock=lambda: clock.now_s, wait=clock.wait,
    )  # fmt: skip
    return clock.done


def test_reports_are_at_the_common_instant_and_tables_are_taken_over_after_it() -> None:
    done = _run(Clock())
    assert [what for what, _ in done] == ["follow", *("report", "follow") * 3, "report"]
    reports = [at for what, at in done if what == "report"]
    assert all(0.02 <= at % 1.0 <= 0.07 for at in reports)
    assert all(0.99 <= after - before <= 1.01 for before, after in itertools.pairwise(reports))
    follows = [at for what, at in done if what == "follow"][1:]
    assert all(0.1 < at % 1.0 < 0.35 for at in follows)


def test_a_tick_that_took_too_long_is_left_out() -> None:
    clock = Clock()
    clock.slow_s = [3.8]
    reports = [at for what, at in _run(clock) if what == "report"]
    assert all(after - before > 0.5 for before, after in itertools.pairwise(reports))
    assert all(0.02 <= at % 1.0 <= 0.07 for at in reports)
