"""`steelyard apply` and `save`: declare the upstreams of a YAML file; write the declarations as such a file.

Everything outside of the file stays as it is: a drain, a pin, a server
that its agent registered. With --prune, servers that the file does not name are removed,
and --replace makes everything as in the file. A dry run asks the controller.

For a server, `save` writes the address and the baseline, and a state and pin other than the default: so
applying it does not undo later drains and pins. It leaves out servers from Kubernetes, which declares them
again.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from steelyard_controller import yaml_text
from steelyard_controller.cli import connection_flags, error_answers
from steelyard_controller.cli.api_client import path
from steelyard_controller.cli.api_documents import Change, Overview, Upstreams
from steelyard_controller.cli.command_session import Session, opened
from steelyard_controller.cli.exit_status import Exit, Failure, UsageError

if TYPE_CHECKING:
    from httpx import Response

    from steelyard_controller.declarations.upstream import Upstream


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    parser = subparsers.add_parser(
        "apply",
        help="declare the upstreams of a YAML file",
        description="Declare the upstreams below `upstreams:` in a YAML file, as in the controller's own. "
        "Everything else stays as it is: states, pins, servers registered by their agents.",
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--dry-run", action="store_true", help="Print the changes, and change nothing")
    more = parser.add_mutually_exclusive_group()
    more.add_argument("--prune", action="store_true", help="Remove servers that are not in the file")
    more.add_argument(
        "--replace",
        action="store_true",
        help="Make everything as in the file: other fields get their defaults, drains and pins are lifted",
    )
    connection_flags.add(parser, run=_apply)
    save = subparsers.add_parser(
        "save",
        help="print declarations as YAML for `apply`",
        description="Print the declarations of one upstream or of all, as YAML for `steelyard apply`. "
        "States and pins appear if they differ from the default; servers from Kubernetes do not.",
    )
    save.add_argument("upstream", nargs="?", metavar="UPSTREAM", help="Upstream to print (default: all)")
    connection_flags.add(save, run=_save)


def _apply(given: argparse.Namespace) -> int:
    from steelyard_controller.declarations import declaration

    sections = _sections(given.file)
    with opened(given) as session:
        applied = []
        for name, section in sections.items():
            before, tag = declared(session, name)
            try:
                after = section if given.replace else _merged(before, section, prune=given.prune)
            except ValidationError as error:
                raise Failure(Exit.USAGE, f"{given.file}: {name}: {declaration.mistakes(error)}") from None
            changes = "nothing to do" if before == after else declaration.differences(before, after)
            if before != after and given.dry_run:
                changes = _dry_run(session, name, after, tag)
            elif before != after:
                _declare(session, name, after, tag)
            applied.append(
                {"upstream": name, "what": changes, "applied": before != after and not given.dry_run}
            )
            if not session.out.as_json:
                session.out.lines([f"{name}: {'would be: ' if given.dry_run else ''}{changes}"])
        if session.out.as_json:
            session.out.document({"upstreams": applied})
        return Exit.OK


def _sections(file: Path) -> "dict[str, Upstream]":
    """Return the upstreams of a file; raise `UsageError`."""
    from steelyard_controller.declarations import declaration
    from steelyard_controller.declarations.upstream import Upstream

    try:
        document = yaml_text.parse(file.read_text(encoding="utf-8")).value
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: it is not UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None
    upstreams = document.get("upstreams") if isinstance(document, dict) else None
    if not isinstance(upstreams, Mapping) or not upstreams:
        raise UsageError(f"{file} declares no upstream: write them below `upstreams:`, by name")
    sections = {}
    for name, section in upstreams.items():
        connection_flags.name(str(name), f"an upstream ({file})")
        try:
            sections[str(name)] = Upstream.model_validate({} if section is None else section)
        except ValidationError as error:
            raise UsageError(f"{file}: {name}: {declaration.mistakes(error)}") from None
    return sections


def declared(session: Session, name: str) -> "tuple[Upstream | None, str | None]":
    """Return the current declaration and its ETag; None if there is none."""
    from steelyard_controller.declarations.upstream import Upstream

    where = path("upstreams", name, "declaration")
    try:
        answer = session.controllers.send("GET", where)
    except Failure as failure:
        if failure.status == Exit.UNKNOWN:
            return None, None
        raise
    read = error_answers.document(Upstream, answer.content, session.controllers.url, where)
    return read, answer.headers.get("etag")


def _merged(before: "Upstream | None", section: "Upstream", *, prune: bool) -> "Upstream":
    """Return the declaration with the section applied; raise pydantic's ValidationError."""
    from steelyard_controller.declarations.declaration import Declaration, with_file

    if before is None:
        return section
    # `with_file` removes peers of earlier files that this one lacks: with --prune, all of them.
    known = tuple(peer.id for peer in before.peers) if prune else ()
    merged = with_file(Declaration(upstream=before, file_peers=known), section)
    return before if merged is None else merged.upstream


def _dry_run(session: Session, name: str, after: "Upstream", tag: str | None) -> str:
    """Return the changes that the controller would make."""
    where = path("upstreams", name, "dry-run")
    answer = _put(session, where, after, tag)
    return error_answers.document(Change, answer.content, session.controllers.url, where).what


def _put(session: Session, where: str, after: "Upstream", tag: str | None) -> "Response":
    # Refused if the declaration has changed since it was read.
    headers = {"If-None-Match": "*"} if tag is None else {"If-Match": tag}
    return session.controllers.send("PUT", where, json=after.model_dump(mode="json"), headers=headers)


def _declare(session: Session, name: str, after: "Upstream", tag: str | None) -> None:
    try:
        _put(session, path("upstreams", name), after, tag)
    except Failure as failure:
        # A controller may have made the change without its answer arriving; the next one then refuses it.
        if failure.status != Exit.NOT_DONE or declared(session, name)[0] != after:
            raise


def _save(given: argparse.Namespace) -> int:
    with opened(given) as session:
        if given.upstream is None:
            listed = session.controllers.get(Upstreams, "/v1/upstreams").document.upstreams
            names = [row.name for row in listed]
        else:
            names = [connection_flags.name(given.upstream, "an upstream")]
        sections = {}
        for name in names:
            # Fails if there is no such upstream.
            overview = session.controllers.get(Overview, path("upstreams", name)).document
            pods = {peer.id for peer in overview.peers if peer.pod is not None}
            upstream, _ = declared(session, name)
            if upstream is not None:
                own = [peer for peer in upstream.peers if peer.id not in pods]
                peers = [peer.model_dump(exclude_defaults=True) for peer in own]
                sections[name] = {**upstream.model_dump(mode="json"), "peers": peers}
        document = {"upstreams": sections}
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
        session.out.answer(document, [text.rstrip()])
        return Exit.OK
