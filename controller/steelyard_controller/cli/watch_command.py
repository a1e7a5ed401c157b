"""`steelyard watch`: an upstream live, over server-sent events."""

import argparse
import contextlib
import queue
import shutil
import sys
from collections import deque

from steelyard_protocol.console_program import is_output_lost

from steelyard_controller.cli import connection_flags
from steelyard_controller.cli.api_client import Controllers
from steelyard_controller.cli.api_documents import Overview, Service
from steelyard_controller.cli.command_session import add_upstream, opened, upstream_of
from steelyard_controller.cli.event_feed import Event, Feed, Tick
from steelyard_controller.cli.exit_status import Exit, Failure
from steelyard_controller.cli.terminal.full_screen import Screen
from steelyard_controller.cli.terminal.output import Output, can_draw
from steelyard_controller.cli.views import live_table as view
from steelyard_controller.cli.views import service_status as status_view

# The latest events, at the foot of the screen.
SHOWN_EVENTS = 3


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "watch",
        help="show an upstream live",
        description="Show an upstream live (GET /v1/events): a table that changes at each tick; q or "
        "ctrl-C ends it. If standard output is no terminal: a line for each tick. "
        "--json: the overview of each tick, one a line.",
    )
    add_upstream(parser)
    parser.add_argument(
        "--count",
        metavar="N",
        help="Number of ticks to show; a tick is a second by default (default: no limit)",
    )
    connection_flags.add(parser, run=_run)


def _run(given: argparse.Namespace) -> int:
    count = _count(given.count)
    with opened(given) as session:
        upstream = upstream_of(session, given)
        # A stream may be silent for long; a short request shows first whether the controller answers.
        session.controllers.get(Service, "/v1/service")
        draws = can_draw() and not session.out.as_json
        show = _on_screen if draws else _in_lines
        return show(session.controllers, upstream, session.out, count)


def _in_lines(controllers: Controllers, upstream: str, out: Output, count: int | None) -> int:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    ticks = 0
    service: Service | None = None
    with contextlib.suppress(KeyboardInterrupt), Feed(controllers, upstream, events.put):
        while ticks != count and not is_output_lost():
            match events.get():
                case Tick(overview, body):
                    ticks += 1
                    out.answer(body, [view.line(overview)])
                case Service() as newest:
                    for text in view.news(service, newest):
                        print(f"steelyard: {text}", file=sys.stderr, flush=True)
                    service = newest
                case str(text):
                    print(f"steelyard: {text}", file=sys.stderr, flush=True)
                case Failure() as failure:
                    raise failure
    return Exit.OK


def _on_screen(controllers: Controllers, upstream: str, out: Output, count: int | None) -> int:
    newest: Overview | None = None
    service: Service | None = None
    ended: Failure | None = None
    notes: deque[str] = deque(maxlen=SHOWN_EVENTS)
    ticks = 0
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with contextlib.suppress(KeyboardInterrupt), Screen() as screen:

        def deliver(event: Event) -> None:
            events.put(event)
            screen.wake()

        with Feed(controllers, upstream, deliver):
            while ended is None and ticks != count:
                height = shutil.get_terminal_size().lines
                screen.draw(view.screen(newest, service, list(notes), out.look, height))
                if "q" in screen.wait().lower():
                    break
                while not events.empty() and ticks != count:
                    match events.get():
                        case Tick(overview, _):
                            newest = overview
                            ticks += 1
                        case Service() as latest:
                            notes.extend(view.leader_news(service, latest))
                            service = latest
                        case str(text):
                            notes.append(text)
                        case Failure() as failure:
                            ended = failure
    # The last screen stays in the terminal.
    if newest is not None:
        out.lines(status_view.of_overview(newest, out.look))
    if ended is not None:
        raise ended
    return Exit.OK


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    return connection_flags.whole_number("--count", text, 1, 10**9, "a number of ticks, such as 10,")
