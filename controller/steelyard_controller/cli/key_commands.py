"""`steelyard keys`: the key or token of one server or load balancer, or of all agents. Asks no controller."""

import argparse
import os
from pathlib import Path

from steelyard_protocol import derived_keys, secret_file, signature
from steelyard_protocol.secret_file import SecretFileError

from steelyard_controller.cli import connection_flags
from steelyard_controller.cli.exit_status import Exit, UsageError
from steelyard_controller.cli.terminal.output import Output

KINDS = {
    "agent": ("UPSTREAM/SERVER", "key that signs the samples of one server"),
    "agents": (
        None,
        "key that signs the samples of any server, for the agent of a Kubernetes node's pods",
    ),
    "token": ("UPSTREAM/SERVER", "token with which one server may register and remove itself"),
    "lb": ("NAME", "key of one load balancer, to read tables and to sign its own traffic reports"),
}


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "keys",
        help="derive a key or a token for one server, one load balancer, or the agents of many servers",
        description="Print a key or a token derived from the shared key and valid for one sender only "
        "(`agents`: for samples of all servers, and nothing else). Controllers need --derived-keys "
        "accept or require. Each run prints the same.",
    )
    kinds = parser.add_subparsers(required=True, dest="kind", metavar="KIND")
    for kind, (name, about) in KINDS.items():
        one = kinds.add_parser(kind, help=about, description=f"Print the {about}.")
        if name is not None:
            one.add_argument(
                "name",
                metavar=name,
                help="Name in its messages, such as web/server-1"
                if "/" in name
                else "Name in its messages, such as edge-1",
            )
        one.add_argument(
            "--key-file", type=Path, metavar="FILE", help="File of the shared key (default: STEELYARD_KEY)"
        )
        one.add_argument(
            "--json", default=argparse.SUPPRESS, action="store_true", help="Print a JSON document"
        )
        one.set_defaults(run=_keys)


def _keys(given: argparse.Namespace) -> int:
    shared = _shared(given.key_file)
    if given.kind == "agents":
        derived = derived_keys.derive(shared, derived_keys.AGENTS).decode()
    elif given.kind == "lb":
        derived = derived_keys.of_load_balancer(shared, connection_flags.name(given.name, "a load balancer"))
    else:
        upstream, slash, peer = given.name.partition("/")
        if not slash:
            raise UsageError(f"{given.name[:80]!r} names no server: write it as UPSTREAM/SERVER")
        connection_flags.name(upstream, "an upstream")
        connection_flags.name(peer, "a server")
        if given.kind == "token":
            derived = derived_keys.token(shared, upstream, peer)
        else:
            derived = derived_keys.derive(shared, derived_keys.agent(upstream, peer)).decode()
    document = {"kind": given.kind, "name": getattr(given, "name", None), "value": derived}
    Output(as_json=connection_flags.wants_json(given)).answer(document, [derived])
    return Exit.OK


def _shared(file: Path | None) -> bytes:
    text = os.environ.get("STEELYARD_KEY")
    try:
        if file is not None:
            key = secret_file.read_key(file)
        elif text is not None:
            key = signature.key_of_variable(text)
        else:
            raise UsageError("there is no shared key to derive from: name its file with --key-file")
    except SecretFileError as error:
        raise UsageError(str(error)) from None
    except ValueError as error:
        raise UsageError(f"STEELYARD_KEY: {error}") from None
    if key.startswith(b"lb."):
        raise UsageError("this is a load balancer's key, and other keys derive from the shared one only")
    return key
