"""Whether all is well on a stage, from what its daemons say. Pure: documents in, the first reason out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard_loadtest.stage import hosts
from steelyard_loadtest.stage.settings import Settings

FRESH_TICKS = 3.0
"""A sample, or a load balancer's report, is fresh that long (docs/control-law.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What could be seen of a stage at one moment; None: no answer.

    stopped: what is wrong with a process, a line each. readiness: each controller's /readyz. overview: the
    leader's /v1/upstreams/<upstream>. status: nginx's. workers: how many nginx has.
    """

    stopped: tuple[str, ...]
    readiness: Mapping[str, Mapping[str, Any] | None]
    overview: Mapping[str, Any] | None
    status: Mapping[str, Any] | None
    workers: int


def why_not_well(settings: Settings, seen: Seen) -> str | None:
    """Return the first reason why all is not well, in the order of cause and effect; None when it is."""
    return (
        next(iter(seen.stopped), None)
        or _controllers(seen)
        or _loop(settings, seen.overview)
        or _load_balancer(settings, seen)
    )


def leader(readiness: Mapping[str, Mapping[str, Any] | None]) -> str | None:
    """Return which controller says that it leads; None when none or several do."""
    leaders = [name for name, document in readiness.items() if document and document.get("role") == "leader"]
    return leaders[0] if len(leaders) == 1 else None


def _controllers(seen: Seen) -> str | None:
    roles = []
    for name, document in seen.readiness.items():
        if document is None:
            return f"{name} does not answer"
        if document.get("status") != "ok":
            causes = document.get("degraded") or document.get("upstreams") or document.get("detail")
            return f"{name} is not ready: {causes}"
        roles.append(document.get("role"))
    if roles.count("leader") != 1 or roles.count("standby") != len(roles) - 1:
        said = ", ".join(f"{name}: {role}" for name, role in zip(seen.readiness, roles, strict=True))
        return f"not one leader, the others standing by ({said})"
    return None


def _loop(settings: Settings, overview: Mapping[str, Any] | None) -> str | None:
    if overview is None:
        return "the leader does not show the upstream"
    fresh_s = FRESH_TICKS * settings.tick_s
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
        if report is None or report["report_age_s"] > fresh_s:
            return f"{name} has no fresh report"
    return None


def _load_balancer(settings: Settings, seen: Seen) -> str | None:
    if seen.status is None:
        return "nginx does not show its status"
    if seen.workers != settings.nginx_workers:
        return f"nginx has {seen.workers} workers, not {settings.nginx_workers}"
    upstream = seen.status["upstreams"][settings.upstream]
    if upstream["rung"] != "fresh":
        return f"nginx's weights rest on {upstream['rung']} ({upstream['last_fetch']})"
    there = {peer["id"] for peer in upstream["peers"] if peer["eligible"]}
    known = {peer["id"] for peer in upstream["peers"]}
    wanted = set(hosts.servers(settings))
    if known != wanted:
        return f"nginx serves {len(known)} servers, not the stage's {len(wanted)}"
    away = sorted(wanted - there)
    return f"{', '.join(away)} not eligible in nginx" if away else None
