"""Parameters of laws, each with default, bounds, unit and reason, and the way to set them by name.

Pure. A law's parameters are a frozen dataclass with fields from `parameter`. The documentation and the
command line read the same fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, TypeVar

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The description of one parameter."""

    name: str
    default: float
    low: float
    high: float
    unit: str
    reason: str


def parameter(default: float, low: float, high: float, unit: str, reason: str) -> Any:  # noqa: ANN401
    """Return a dataclass field for a parameter within `low`..`high`; Any, as `dataclasses.field` is typed."""
    return field(
        default=default,
        metadata={"default": default, "low": low, "high": high, "unit": unit, "reason": reason},
    )


def describe_parameters(parameters: type) -> tuple[Parameter, ...]:
    """Return every parameter of a law, in the order of its page."""
    return tuple(Parameter(name=each.name, **each.metadata) for each in fields(parameters))


def build_parameters(law: str, parameters: type[P], given: Mapping[str, float]) -> P:
    """Return the parameters with the given ones set.

    Raises ValueError with the parameter and the remedy for an unknown name and for a value out of range.
    """
    known = {each.name: each for each in describe_parameters(parameters)}
    for name, value in given.items():
        if name not in known:
            has = ", ".join(known) if known else "none"
            raise ValueError(f"law {law} has no parameter {name!r}; choose one of: {has}")
        bounds = known[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(f"parameter {name} of law {law} is {value!r}; give a number")
        if not bounds.low <= value <= bounds.high:
            raise ValueError(
                f"parameter {name} of law {law} is {value:g}; "
                f"give {bounds.low:g} to {bounds.high:g} {bounds.unit} (the default is {bounds.default:g})"
            )
    return parameters(**{name: float(value) for name, value in given.items()})


def with_low_above_high(parameters: type, given: Mapping[str, float]) -> Mapping[str, float]:
    """Return the given parameters, with L at least `LOW_ABOVE_HIGH` above H if only H is given.

    So H alone can be raised past the default L. A given L stays as it is.
    """
    defaults = {each.name: each.default for each in describe_parameters(parameters)}
    high = given.get("H")
    if "L" not in defaults or "L" in given or not isinstance(high, int | float) or not high <= 1:
        return given
    return {**given, "L": max(defaults["L"], min(1.0, high + LOW_ABOVE_HIGH))}


LOW_ABOVE_HIGH = 0.1
"""Distance of the default thresholds, L - H."""

SHARED_S = (0.0, 0.0, 1e9, "weight", "sum of the weights; 0: 20 per peer, at least 1000 and at most 1e6")
"""The parameter S, the same for every law."""

# nginx refuses larger weights (MAX_WEIGHT of the weight table).
LARGEST_TOTAL = 1_000_000


def law_total(total: float, peers: int) -> int:
    """Return S for this number of peers: 20 a peer, so that the smallest step stays small.

    The limit is `LARGEST_TOTAL`, above 50,000 peers, because a single peer may have nearly all of S.
    """
    return max(int(total), peers) if total >= 1 else max(1000, min(20 * peers, LARGEST_TOTAL))
