"""`steelyard apply` and `save`: declare the upstreams of a YAML file; write the declarations as such a file.

Everything outside of the file stays as it is: a drain, a pin, a server
that its agent registered. With --prune, servers that the file does not name are removed,
and --replace makes everything as in the file. A dry run asks the controller.

`save` names every field, so `apply` brings back defaults too. A server's state and pin appear only if they
differ from the default, so `apply` does not undo later drains and pins. Servers from Kubernetes are left out,
because it declares them again.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from steelyard_protocol import whole_file

from steelyard_controller import yaml_text
from steelyard_controller.cli import connection_flags, error_answers, name_completion, yaml_file
from steelyard_controller.cli.api_client import path
from steelyard_controller.cli.api_documents import Change, Overview, Upstreams
from steelyard_controller.cli.command_session import Session, opened
from steelyard_controller.cli.exit_status import Exit, Failure

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
    parser.add_argument("file", metavar="FILE", type=Path, help="YAML file, such as one from `save`")
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
    upstream = save.add_argument(
        "upstream", nargs="?", metavar="UPSTREAM", help="Upstream to print (default: all)"
    )
    name_completion.set_upstream(upstream)
    save.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="File to write in one step, so that a full disk leaves an earlier copy whole "
        "(default: standard output)",
    )
    connection_flags.add(save, run=_save)


def _apply(given: argparse.Namespace) -> int:
    from steelyard_controller.declarations import declaration, saved_section

    sections = yaml_file.sections(given.file)
    with opened(given) as session:
        applied = []
        for name, section in sections.items():
            before, tag = declared(session, name)
            try:
                after = (
                    section if given.replace else saved_section.applied(before, section, prune=given.prune)
                )
            except ValidationError as error:
                raise Failure(Exit.USAGE, f"{given.file}: {name}: {declaration.mistakes(error)}") from None
            changes = declaration.differences(before, after)
            if changes != declaration.UNCHANGED:
                # The controller keeps what others own, such as the pods that Kubernetes declares.
                change = _dry_run if given.dry_run else _declare
                changes = change(session, name, before, after, tag)
            is_change = changes != declaration.UNCHANGED
            what = changes if is_change else "nothing to do"
            applied.append({"upstream": name, "what": what, "applied": is_change and not given.dry_run})
            if not session.out.as_json:
                session.out.lines([f"{name}: {'would be: ' if given.dry_run else ''}{what}"])
        if session.out.as_json:
            session.out.document({"upstreams": applied})
        return Exit.OK


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


def _dry_run(
    session: Session, name: str, _before: "Upstream | None", after: "Upstream", tag: str | None
) -> str:
    """Return the changes that the controller would make."""
    where = path("upstreams", name, "dry-run")
    answer = _put(session, where, after, tag)
    return error_answers.document(Change, answer.content, session.controllers.url, where).what


def _declare(
    session: Session, name: str, before: "Upstream | None", after: "Upstream", tag: str | None
) -> str:
    """Declare an upstream; return the changes that the controller made."""
    from steelyard_controller.declarations.declaration import UNCHANGED, differences
    from steelyard_controller.declarations.upstream import Upstream

    where = path("upstreams", name)
    try:
        answer = _put(session, where, after, tag)
    except Failure as failure:
        if failure.status != Exit.NOT_DONE:
            raise
        # A controller may have made the change without its answer arriving; the next one then refuses it.
        now, tag = declared(session, name)
        if now is None or _dry_run(session, name, now, after, tag) != UNCHANGED:
            raise failure from None
        return differences(before, now)
    made = error_answers.document(Upstream, answer.content, session.controllers.url, where)
    return differences(before, made)


def _put(session: Session, where: str, after: "Upstream", tag: str | None) -> "Response":
    # Refused if the declaration has changed since it was read.
    headers = {"If-None-Match": "*"} if tag is None else {"If-Match": tag}
    return session.controllers.send("PUT", where, json=after.model_dump(mode="json"), headers=headers)


def _save(given: argparse.Namespace) -> int:
    from steelyard_controller.declarations import saved_section

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
                sections[name] = saved_section.section_of(upstream, without=pods)
        document = {"upstreams": sections}
        if given.output is not None:
            text = json.dumps(document) if session.out.as_json else yaml_text.dump(document)
            _write(given.output, f"{text.rstrip()}\n")
        else:
            session.out.answer(document, [yaml_text.dump(document).rstrip()])
        return Exit.OK


def _write(file: Path, text: str) -> None:
    try:
        whole_file.write(file, text.encode())
    except OSError as error:
        raise Failure(Exit.OUTPUT_LOST, f"--output {file} cannot be written: {error.strerror}") from None
