"""YAML files of commands; each mistake names the file, the line and the place."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from steelyard_protocol.program_settings import printable

from steelyard_controller import yaml_text
from steelyard_controller.cli import connection_flags
from steelyard_controller.cli.exit_status import UsageError

if TYPE_CHECKING:
    from steelyard_controller.declarations.upstream import Upstream


def read(file: Path, *, option: str = "") -> yaml_text.Document:
    """Return the content of a file, which `option` names on the command line; raise `UsageError`."""
    named = f"{option} {file}".lstrip()
    try:
        return yaml_text.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{named} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{named}: it is not UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{named}: {error}") from None


def sections(file: Path) -> "dict[str, Upstream]":
    """Return the upstreams below `upstreams:` in a file, by name; raise `UsageError`."""
    from steelyard_controller.declarations.upstream import Upstream  # numpy takes a moment

    document = read(file)
    upstreams = document.value.get("upstreams") if isinstance(document.value, dict) else None
    if not isinstance(upstreams, Mapping) or not upstreams:
        raise UsageError(f"{file} declares no upstream: write them below `upstreams:`, by name")
    read_sections = {}
    for name, section in upstreams.items():
        line = document.line_of(("upstreams", name))
        connection_flags.name(name, f"an upstream ({file}, line {line})")
        try:
            read_sections[name] = Upstream.model_validate({} if section is None else section, strict=True)
        except ValidationError as error:
            raise UsageError(_mistakes(file, document, name, error)) from None
    return read_sections


def _mistakes(file: Path, document: yaml_text.Document, name: str, error: ValidationError) -> str:
    from steelyard_controller.declarations.validation_messages import message

    texts = []
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"]) or "document"
        line = document.line_of(("upstreams", name, *each["loc"]))
        texts.append(f"line {line}: {name}: {printable(place)}: {message(each, None)}")
    return f"{file}: {'; '.join(texts)}"
