"""Whether all is well on a stage, by its daemons' documents. Pure: documents in, the first reason out."""

from collections.abc import Iterable, Mapping
from typing import Any

from steelyard_resilience.stage import hosts
from steelyard_resilience.stage.hosts import Settings

FRESH_TICKS = 3.0
"""A sample or a load balancer's report is fresh for this long (docs/control-law.md)."""

Document = Mapping[str, Any]


def why_not_well(
    settings: Settings,
    *,
    stopped: Iterable[str],
    readiness: Mapping[str, Document | None],
    overview: Document | None,
    status: Document | None,
    workers: int,
) -> str | None:
    """Return the first reason why not all is well, in the order of cause and effect; None if all is.

    stopped: a line for each problem of a process. readiness: each controller's /readyz. overview: the
    leader's /v1/upstreams/<upstream>. status: nginx's. workers: number of nginx's workers. None: no answer.
    """
    return (
        next(iter(stopped), None)
        or _controllers(readiness)
        or _loop(settings, overview)
        or _load_balancer(settings, status, workers)
    )


def leader(readiness: Mapping[str, Document | None]) -> str | None:
    """Return the name of the controller that reports to lead; None if none or several do."""
    leaders = [name for name, document in readiness.items() if document and document.get("role") == "leader"]
    return leaders[0] if len(leaders) == 1 else None


def _controllers(readiness: Mapping[str, Document | None]) -> str | None:
    roles = []
    for name, document in readiness.items():
        if document is None:
            return f"{name} does not answer"
        if document.get("status") != "ok":
            causes = document.get("degraded") or document.get("upstreams") or document.get("detail")
            return f"{name} is not ready: {causes}"
        roles.append(document.get("role"))
    if roles.count("leader") != 1 or roles.count("standby") != len(roles) - 1:
        reported = ", ".join(f"{name}: {role}" for name, role in zip(readiness, roles, strict=True))
        return f"not exactly one leader with standbys ({reported})"
    return None


def _loop(settings: Settings, overview: Document | None) -> str | None:
    if overview is None:
        return "the leader does not show the upstream"
    fresh_s = FRESH_TICKS * hosts.TICK_S
    rows = {row["id"]: row for row in overview["peers"]}
    for name in hosts.servers(settings):
        row = rows.get(name)
        if row is None:
            return f"the leader does not know {name}"
        if row["state"] != "up":
            return f"{name} is declared {row['state']}"
        if row["sample_age_s"] is None or row["sample_age_s"] > fresh_s:
            return f"{name} has no fresh sample"
    for name, report in overview["load_balancers"].items():
        if name == hosts.SECOND_LB:
            continue  # it may be absent
        if report is None or report["report_age_s"] > fresh_s:
            return f"{name} has no fresh report"
    return None


def _load_balancer(settings: Settings, status: Document | None, workers: int) -> str | None:
    if status is None:
        return "nginx does not show its status"
    if workers != settings.nginx_workers:
        return f"nginx has {workers} workers, not {settings.nginx_workers}"
    upstream = status["upstreams"][hosts.UPSTREAM]
    if upstream["rung"] != "fresh":
        return f"nginx's weights rest on {upstream['rung']} ({upstream['last_fetch']})"
    eligible = {peer["id"] for peer in upstream["peers"] if peer["eligible"]}
    known = {peer["id"] for peer in upstream["peers"]}
    wanted = set(hosts.servers(settings))
    if known != wanted:
        return f"nginx serves {len(known)} servers, not the stage's {len(wanted)}"
    excluded = sorted(wanted - eligible)
    return f"{', '.join(excluded)} not eligible in nginx" if excluded else None
