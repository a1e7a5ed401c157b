"""How the demo tells how far it is: on a terminal in one line, elsewhere now and then."""

import io

from steelyard_loadtest.demo.options import Plan
from steelyard_loadtest.demo.progress import Progress, describe
from steelyard_loadtest.demo.records import Observed

SERVERS = ("server-1", "server-2")
PLAN = Plan(
    name="steelyard",
    title="Steelyard",
    path="/",
    static=False,
    seconds=60,
    rate=300,
    users=150,
    burn_url="http://127.0.0.1:8101",
    servers=SERVERS,
)
EQUAL = Plan(
    name="equal",
    title="Equal static weights",
    path="/equal/",
    static=True,
    seconds=60,
    rate=300,
    users=150,
    burn_url="http://127.0.0.1:8101",
    servers=SERVERS,
)


def observed(*shares: float | None) -> list[Observed]:
    return [
        Observed(t_s=number // 2, server=SERVERS[number % 2], weight_share=share, cpu_utilization=None)
        for number, share in enumerate(shares)
    ]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_line_tells_the_time_left_in_both_phases_and_the_newest_weights() -> None:
    line = describe(PLAN, 25.2, burning=True, observed=observed(0.5, 0.5, 0.1, 0.9), phases_left=1)
    assert line == "Steelyard: 25 of 60 s, 1:43 left · burning CPU · weights server-1 10 %, server-2 90 %"


def test_an_unknown_weight_is_shown_as_such_and_no_weights_are_not_shown() -> None:
    line = describe(PLAN, 0, burning=False, observed=observed(None, 1.0), phases_left=0)
    assert line == "Steelyard: 0 of 60 s, 1:00 left · weights server-1 –, server-2 100 %"
    assert describe(PLAN, 0, burning=False, observed=[], phases_left=0) == "Steelyard: 0 of 60 s, 1:00 left"


def test_the_static_phase_shows_no_weights_because_its_load_follows_none() -> None:
    line = describe(EQUAL, 59.6, burning=False, observed=observed(0.5, 0.5), phases_left=0)
    assert line == "Equal static weights: 60 of 60 s, 0:00 left"


def test_a_file_gets_a_line_every_ten_seconds_of_each_phase() -> None:
    stream = io.StringIO()
    progress = Progress(stream, phases=2)
    for plan in (PLAN, EQUAL):
        progress.begin_phase()
        for tenth in range(250):
            progress.tick(plan, tenth / 10, burning=False, observed=[])
    progress.done()
    assert [line.partition(" s,")[0] for line in stream.getvalue().splitlines()] == [
        *(f"Steelyard: {second} of 60" for second in (0, 10, 20)),
        *(f"Equal static weights: {second} of 60" for second in (0, 10, 20)),
    ]


def test_a_terminal_gets_one_line_that_is_written_over_and_cleared_at_the_end() -> None:
    stream = Terminal()
    progress = Progress(stream, phases=1)
    progress.begin_phase()
    progress.tick(PLAN, 0.0, burning=False, observed=[])
    progress.tick(PLAN, 0.1, burning=False, observed=[])
    progress.done()
    line = "\r\x1b[KSteelyard: 0 of 60 s, 1:00 left"
    assert stream.getvalue() == line + line + "\r\x1b[K"
