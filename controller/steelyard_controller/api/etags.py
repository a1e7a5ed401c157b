"""Conditional requests: ETag, If-Match, If-None-Match (RFC 9110, 13.1). Pure."""

from steelyard_controller.api.problems import ProblemError
from steelyard_controller.declarations.declaration import Declaration


def tag(*parts: int) -> str:
    """Return the ETag made of these numbers: `"3.118"`."""
    return f'"{".".join(map(str, parts))}"'


def matches(header: str | None, wanted: str, *, weak: bool) -> bool:
    """Return whether a header's list of tags has the wanted one, or `*`; with `weak`, W/ is ignored."""
    offered = [part.strip() for part in (header or "").split(",")]
    if weak:
        offered = [each.removeprefix("W/") for each in offered]
    return wanted in offered or "*" in offered


def expected_revision(
    header: str | None, none_match: str | None, declared: Declaration | None, *, upstream: str
) -> int | None:
    """Return the revision that a change expects (0: no upstream yet, None: any); raise a 412 problem."""
    if none_match is not None:
        if declared is not None and matches(none_match, tag(declared.revision), weak=True):
            raise ProblemError(412, f"upstream {upstream} exists, with revision {declared.revision}")
        return declared.revision if declared else 0
    if header is None:
        return None
    if declared is None:
        raise ProblemError(412, f"upstream {upstream} does not exist: leave out If-Match to create it")
    if not matches(header, tag(declared.revision), weak=False):
        raise ProblemError(
            412, f"upstream {upstream} has revision {declared.revision}, not {header[:64]}: read it again"
        )
    return declared.revision
