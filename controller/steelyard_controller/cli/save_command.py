"""`steelyard save`: what is declared, as YAML that `steelyard apply` takes.

Of a server it has the address and the baseline, and of state and pin what is not the default: so to apply it
undoes no drain and no pin of later. Servers that Kubernetes declares are left out: it declares them again.
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

import yaml

from steelyard_controller.cli import apply_command, connection_flags
from steelyard_controller.cli.api_client import path
from steelyard_controller.cli.api_documents import Upstreams
from steelyard_controller.cli.command_session import Session, opened
from steelyard_controller.cli.exit_status import Exit

if TYPE_CHECKING:
    from steelyard_controller.declarations.upstream import Upstream


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "save",
        help="what is declared, as YAML for `apply`",
        description="Write what is declared of one upstream or of all, as YAML that `steelyard apply` takes. "
        "States and pins are there where somebody has set them; servers of Kubernetes are not.",
    )
    parser.add_argument("upstream", nargs="?", metavar="UPSTREAM", help="of this one alone")
    connection_flags.add(parser, run=_run)


def _run(given: argparse.Namespace) -> int:
    with opened(given) as session:
        if given.upstream is None:
            listed = session.controllers.get(Upstreams, "/v1/upstreams").document.upstreams
            names = [row.name for row in listed]
        else:
            names = [connection_flags.name(given.upstream, "an upstream")]
        sections = {}
        for name in names:
            pods = _pods(session, name)  # fails where there is no such upstream
            upstream, _ = apply_command.declared(session, name)
            if upstream is not None:
                sections[name] = _section(upstream, pods)
        document = {"upstreams": sections}
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
        session.out.answer(document, [text.rstrip()])
        return Exit.OK


def _section(upstream: "Upstream", pods: set[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(upstream.model_dump_json())
    peers = [peer.model_dump(exclude_defaults=True) for peer in upstream.peers if peer.id not in pods]
    return {**document, "peers": peers}


def _pods(session: Session, name: str) -> set[str]:
    """Return the servers that Kubernetes declares."""
    answer = session.controllers.send("GET", path("upstreams", name))
    rows = json.loads(answer.content).get("peers", [])
    return {row["id"] for row in rows if row.get("pod") is not None}
