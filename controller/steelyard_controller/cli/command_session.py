"""The session of a command: its API client, its output, and its upstream."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from steelyard_controller.cli import connection_flags, name_completion
from steelyard_controller.cli.api_client import Controllers
from steelyard_controller.cli.api_documents import Upstreams
from steelyard_controller.cli.exit_status import Exit, Failure, UsageError
from steelyard_controller.cli.terminal.output import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The API client and the output of one run of a command."""

    controllers: Controllers
    out: Output


@contextmanager
def opened(given: argparse.Namespace) -> Iterator[Session]:
    """Yield the session for these flags and the environment; raise `UsageError`."""
    connection = connection_flags.connection(given, os.environ)
    with Controllers(connection) as controllers:
        yield Session(controllers=controllers, out=Output(as_json=connection_flags.wants_json(given)))


def add_upstream(parser: argparse.ArgumentParser, *, before_peer: bool = False) -> None:
    """Add the argument UPSTREAM, which may be left out if there is only one."""
    action = parser.add_argument(
        "upstream", nargs="?", metavar="UPSTREAM", help="Name of the upstream (default: the only one)"
    )
    name_completion.set_upstream(action, before_peer=before_peer)


def add_upstream_and_peer(parser: argparse.ArgumentParser) -> None:
    """Add the arguments UPSTREAM, which may be left out if there is only one, and PEER."""
    add_upstream(parser, before_peer=True)
    name_completion.set_peer(parser.add_argument("peer", metavar="PEER", help="Name of the server"))


def upstream_of(session: Session, given: argparse.Namespace) -> str:
    """Return the named upstream, or the only one; raise `Failure` if there are none or several."""
    named: str | None = given.upstream
    if named is not None:
        return connection_flags.name(named, "an upstream")
    names = [row.name for row in session.controllers.get(Upstreams, "/v1/upstreams").document.upstreams]
    if not names:
        raise Failure(
            Exit.UNKNOWN, "no upstream is declared yet: declare those of a file with `steelyard apply FILE`"
        )
    if len(names) > 1:
        raise UsageError(f"there are several upstreams; name one of: {', '.join(names)}")
    return names[0]
