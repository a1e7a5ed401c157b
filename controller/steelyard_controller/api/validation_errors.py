"""Turns pydantic's validation errors into the mistakes of a problem document. Pure."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import ErrorDetails

from steelyard_controller.api.problems import Mistake
from steelyard_controller.declarations.validation_messages import message

WHOLE_DOCUMENT = "document"
"""The `field` of a mistake in the document as a whole."""


def of_document(errors: Sequence[ErrorDetails], *, fields: Sequence[str] | None = None) -> list[Mistake]:
    """Return pydantic's errors about a document as mistakes; `fields` are those of a peer's document."""
    return [
        Mistake(field=".".join(map(str, error["loc"])) or WHOLE_DOCUMENT, message=message(error, fields))
        for error in errors
    ]


def of_parameters(errors: Sequence[Any]) -> list[Mistake]:
    """Return FastAPI's errors about a path, a query or a header as mistakes."""
    return [Mistake(field=str(error["loc"][-1]), message=message(error, ())) for error in errors]
