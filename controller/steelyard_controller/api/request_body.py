"""Request bodies: bytes to a JSON object, and that to a model; anything else is a 4xx problem.

Pure. Only JSON in UTF-8, each key once, no NaN, no lone surrogates: a text that
two JSON parsers may read differently is refused.
"""

import json
from collections.abc import Sequence
from email.message import Message
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from steelyard_controller import json_text
from steelyard_controller.api import validation_errors
from steelyard_controller.api.problems import ProblemError, invalid

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

M = TypeVar("M", bound=BaseModel)


def read(body: bytes, content_type: str | None, *, types: Sequence[str] = (JSON,)) -> dict[str, Any]:
    """Return the JSON object in a body; raise a 415, 400 or 422 problem."""
    _check_type(content_type, types)
    try:
        document = json_text.parse(body.decode("utf-8"))
        # Raises for a lone surrogate, which no answer could quote.
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ProblemError(400, f"the body is not UTF-8 (byte {error.start}): send it as UTF-8") from None
    except UnicodeEncodeError:
        raise ProblemError(400, "the body has half of a surrogate pair (\\ud800 to \\udfff)") from None
    except json.JSONDecodeError as error:
        raise ProblemError(400, f"the body is not JSON: {error}") from None
    except ValueError as error:
        raise ProblemError(400, f"the body is refused: {error}") from None
    except RecursionError:
        raise ProblemError(400, "the body is nested too deeply") from None
    if not isinstance(document, dict):
        raise ProblemError(422, "the body must be an object: write it in { }")
    return document


def validated(model: type[M], document: dict[str, Any], *, fields: Sequence[str] | None = None) -> M:
    """Return the document as a model; raise a 422 problem with each wrong field."""
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        raise invalid(validation_errors.of_document(error.errors(include_url=False), fields=fields)) from None
    except OverflowError:
        raise ProblemError(422, "a number is too large: no field takes one beyond 1e9") from None


def _check_type(content_type: str | None, types: Sequence[str]) -> None:
    message = Message()
    message["content-type"] = content_type or ""
    charset = message.get_content_charset("utf-8")
    if (
        content_type is None
        or message.get_content_type() not in types
        or charset not in ("utf-8", "us-ascii")
    ):
        accept = {"Accept-Patch": ", ".join(types)} if MERGE_PATCH in types else None
        raise ProblemError(415, f"send the body with Content-Type: {' or '.join(types)}", headers=accept)
