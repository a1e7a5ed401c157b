"""Comparisons of the locust study's tables with scenario `report`. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.lab.algorithms import DEFAULT
from steelyard_loadtest.lab.findings import grades
from steelyard_loadtest.lab.findings.checks import Alike, Best, Named, Ratio, Within
from steelyard_loadtest.lab.findings.evidence import OneOf, Spot, Who
from steelyard_loadtest.lab.findings.locust_tables import TABLES

SCENARIO = "report"
BOTH_HASHES = ("nginx-ip_hash", "nginx-ip_hash-backwards")

OURS: dict[str, Who] = {
    "RR": "nginx-rr",
    "WRR-srv1": "nginx-wrr",
    "WRR-srv2": "nginx-wrr-reversed",
    "IPH-srv1": OneOf(algorithms=BOTH_HASHES, pick="faster"),
    "IPH-srv2": OneOf(algorithms=BOTH_HASHES, pick="slower"),
    "LC": "nginx-least_conn",
    "WLC": "nginx-wleast_conn",
}
"""The study's abbreviations. Server 1 is the strong one; which one is hashed to, the figures tell."""

EVERY = tuple(OURS)

HARDLY_ANY = 0.01
"""Tells failures that have a cause, which are many, from those that happen."""


def named(name: str, users: int) -> Named:
    """Say where the figure of one of the study's algorithms stands."""
    return Named(name=name, spot=Spot(scenario=SCENARIO, algorithm=OURS[name], level=users))


def _ours(algorithm: str, name: str, users: int) -> Named:
    return Named(name=name, spot=Spot(scenario=SCENARIO, algorithm=algorithm, level=users))


def _published(metric: str, name: str, users: int) -> float:
    return float(getattr(TABLES[name][users], metric))


def ratio(metric: str, over: str, under: str, users: int, *, against_users: int | None = None) -> Ratio:
    """Compare two algorithms at one number of users, or one with itself at another."""
    other = against_users or users
    return Ratio(
        metric=metric,
        over=named(over, users),
        under=named(under, other),
        published=_published(metric, over, users) / _published(metric, under, other),
    )


def alike(metric: str, names: Sequence[str], users: int) -> Alike:
    """Compare algorithms that do not differ, or no more than in the tables."""
    published = [_published(metric, name, users) for name in names]
    return Alike(
        metric=metric,
        named=tuple(named(name, users) for name in names),
        published=max(published) / min(published),
    )


def best(metric: str, best: grades.Best, name: str, others: Sequence[str], users: int) -> Best:
    """Compare one algorithm with the best of others."""
    published = [_published(metric, other, users) for other in others]
    rival = max(published) if best == "highest" else min(published)
    return Best(
        metric=metric,
        best=best,
        candidate=named(name, users),
        others=tuple(named(other, users) for other in others),
        published=_published(metric, name, users) / rival,
    )


def beside(metric: str, best: grades.Best, others: Sequence[str], users: int) -> Best:
    """Put the default law and picker beside them."""
    return Best(
        metric=metric,
        best=best,
        candidate=_ours(DEFAULT, "Steelyard", users),
        others=tuple(named(other, users) for other in others),
    )


def fails(algorithm: str, name: str, users: int, *, published: str, at_least: float | None = None) -> Within:
    """Ask for the failed part of the requests; without a bound hardly any may fail."""
    return Within(
        metric="failures_part",
        named=(_ours(algorithm, name, users),),
        published=published,
        at_least=at_least,
        at_most=HARDLY_ANY if at_least is None else None,
    )


def all_but(*names: str) -> tuple[str, ...]:
    """Return all of the study's algorithms but these."""
    return tuple(name for name in EVERY if name not in names)
