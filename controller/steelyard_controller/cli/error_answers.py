"""Turns a controller's error answer into a command's exit status and one line for a person. Pure."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from steelyard_controller.cli.api_documents import Problem
from steelyard_controller.cli.exit_status import Busy, Exit, Failure

D = TypeVar("D", bound=BaseModel)

_STATUSES = {
    401: Exit.DENIED,
    403: Exit.DENIED,
    404: Exit.UNKNOWN,
    429: Exit.UNREACHABLE,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}


# Refused parameters. If the request only reads, they are those of the command line.
_BAD_PARAMETERS = {400, 414, 422}


def failure(url: str, status: int, body: bytes, *, reads: bool = False) -> Failure:
    """Return the failure of a problem document; `reads`: the request could change nothing."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        return not_a_controller(url, status)
    detail = problem.detail or problem.title or f"status {status}"
    for mistake in problem.errors:
        message = ": ".join(part for part in (mistake.field, mistake.message) if part)
        if mistake.message not in detail:
            detail = f"{detail}; {message}"
        if mistake.remedy and mistake.remedy not in detail:
            detail = f"{detail}: {mistake.remedy}"
    if status == 401 and "--token-file" not in detail:
        detail = f"{detail}; give a token with --token-file or STEELYARD_TOKEN"
    meaning = _STATUSES.get(status, Exit.NOT_DONE)
    if reads and status in _BAD_PARAMETERS:
        meaning = Exit.USAGE
    # The URL matters if another controller, or another token, might get another answer.
    kind = Busy if status == 429 else Failure
    without_url = meaning in {Exit.UNKNOWN, Exit.NOT_DONE, Exit.USAGE}
    return kind(meaning, detail if without_url else f"{url}: {detail}")


def not_a_controller(url: str, status: int) -> Failure:
    """Return the failure for an answer from something other than a controller."""
    return Failure(
        Exit.UNREACHABLE,
        f"{url} answers (status {status}), but not as a controller does: name its REST API with --url",
    )


def document(model: type[D], text: bytes | str, url: str, path: str) -> D:
    """Return a controller's document; raise `Failure` if this version cannot read it."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise Failure(
            Exit.UNREACHABLE,
            f"{url}{path} cannot be read ({where}: {first['msg']}): is the controller of another version?",
        ) from None
