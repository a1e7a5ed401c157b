"""Completions of names in a shell: of upstreams and servers from a controller, of laws and parameters.

The controller has a short time to answer. Without an answer there is nothing to complete, and no message:
the person is in the middle of a line.
"""

import argparse
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from steelyard_protocol import completion, wire

from steelyard_controller.cli import connection_flags
from steelyard_controller.cli.api_client import Controllers, path
from steelyard_controller.cli.api_documents import Overview, Upstreams
from steelyard_controller.cli.exit_status import Failure

# A controller on the same network answers in milliseconds. A person who has pressed TAB waits this long.
WITHIN_S = 1.0

# More names than a person reads.
MOST_NAMES = 1000

Completer = Callable[..., list[str]]


def set_upstream(action: argparse.Action, *, before_peer: bool = False) -> None:
    """Complete the names of upstreams; `before_peer`: the word may be a server's if there is one upstream."""

    def complete(*, prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        # The parser takes a lone word for PEER, because UPSTREAM may be left out.
        if any(getattr(parsed_args, name, None) is not None for name in ("upstream", "peer")):
            return []

        def ask(controllers: Controllers) -> list[str]:
            upstreams = _upstreams(controllers)
            may_be_peer = before_peer and len(upstreams) == 1
            return upstreams + (_peers(controllers, upstreams[0]) if may_be_peer else [])

        return _answered(ask, prefix, parsed_args)

    _set(action, complete)


def set_peer(action: argparse.Action) -> None:
    """Complete the names of servers behind the name of their upstream."""

    def complete(*, prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        words = [word for word in completion.words()[:-1] if not word.startswith("-")]
        # If the word before is no upstream, the controller says so, and there is nothing to complete.
        return _answered(lambda controllers: _peers(controllers, words[-1]), prefix, parsed_args)

    _set(action, complete)


def set_words(action: argparse.Action, words: Sequence[str]) -> None:
    """Complete these words."""
    _set(action, lambda **_: list(words))


def set_law(action: argparse.Action) -> None:
    """Complete the names of the laws."""

    def complete(**_: object) -> list[str]:
        from steelyard_controller import laws  # numpy takes a moment that other completions save

        return list(laws.NAMES)

    _set(action, complete)


def set_parameter(action: argparse.Action) -> None:
    """Complete NAME= of the parameters of the law in the line."""

    def complete(*, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        from steelyard_controller import laws

        law = getattr(parsed_args, "law", None)
        return [f"{each.name}=" for each in laws.parameters_of(law)] if law in laws.NAMES else []

    _set(action, complete)


def _set(action: argparse.Action, complete: Completer) -> None:
    action.completer = complete  # type: ignore[attr-defined]


def _answered(ask: Callable[[Controllers], list[str]], prefix: str, given: argparse.Namespace) -> list[str]:
    """Return the names with this prefix, or none if no controller has answered in time."""
    names: list[str] = []
    asking = threading.Thread(target=lambda: names.extend(_asked(ask, given, os.environ)), daemon=True)
    asking.start()
    # The timeout of a request begins again with each byte, and there may be several controllers.
    asking.join(WITHIN_S)
    # A stranger at the URL must not put other letters into a shell's line.
    return [name for name in names if name.startswith(prefix) and wire.is_name(name)]


def _asked(
    ask: Callable[[Controllers], list[str]], given: argparse.Namespace, environment: Mapping[str, str]
) -> list[str]:
    try:
        with Controllers(connection_flags.connection(given, environment)) as controllers:
            controllers.timeout_s = WITHIN_S
            return ask(controllers)
    except (Failure, OSError, ValueError):
        return []


def _upstreams(controllers: Controllers) -> list[str]:
    answer = controllers.get(Upstreams, "/v1/upstreams", limit=MOST_NAMES)
    return [row.name for row in answer.document.upstreams]


def _peers(controllers: Controllers, upstream: str) -> list[str]:
    if not wire.is_name(upstream):
        return []
    answer = controllers.get(Overview, path("upstreams", upstream), limit=MOST_NAMES)
    return [peer.id for peer in answer.document.peers]
