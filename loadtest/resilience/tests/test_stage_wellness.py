"""Whether all is well, and the reason why not."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from steelyard_resilience.stage.hosts import Settings
from steelyard_resilience.stage.wellness import leader, why_not_well

SETTINGS = Settings(servers=2)

Documents = dict[str, Any]


def well() -> Documents:
    return {
        "stopped": (),
        "readiness": {
            "controller-1": {"status": "ok", "role": "standby", "degraded": [], "upstreams": {}},
            "controller-2": {"status": "ok", "role": "leader", "degraded": [], "upstreams": {}},
        },
        "overview": {
            "peers": [
                {"id": "server-1", "state": "up", "sample_age_s": 0.4},
                {"id": "server-2", "state": "up", "sample_age_s": 2.9},
            ],
            "load_balancers": {"edge-1": {"report_age_s": 0.2}},
        },
        "status": {
            "upstreams": {
                "web": {
                    "rung": "fresh",
                    "last_fetch": "ok",
                    "peers": [{"id": "server-1", "eligible": True}, {"id": "server-2", "eligible": True}],
                }
            }
        },
        "workers": 2,
    }


def but(change: Callable[[Documents], object]) -> str | None:
    seen = copy.deepcopy(well())
    change(seen)
    return why_not_well(SETTINGS, **seen)


def controller_2(**fields: object) -> Callable[[Documents], object]:
    return lambda seen: seen["readiness"]["controller-2"].update(fields)


def server_2(**fields: object) -> Callable[[Documents], object]:
    return lambda seen: seen["overview"]["peers"][1].update(fields)


def web(**fields: object) -> Callable[[Documents], object]:
    return lambda seen: seen["status"]["upstreams"]["web"].update(fields)


def test_all_is_well() -> None:
    assert but(lambda _: None) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda seen: seen.update(stopped=("redis does not run",)), "redis does not run"),
        (lambda seen: seen["readiness"].update({"controller-1": None}), "controller-1 does not answer"),
        (
            controller_2(status="degraded", degraded=["state: away"]),
            "controller-2 is not ready: ['state: away']",
        ),
        (controller_2(status=503, detail="takes over now"), "controller-2 is not ready: takes over now"),
        (
            controller_2(role="standby"),
            "not exactly one leader with standbys (controller-1: standby, controller-2: standby)",
        ),
        (lambda seen: seen.update(overview=None), "the leader does not show the upstream"),
        (lambda seen: seen["overview"]["peers"].pop(), "the leader does not know server-2"),
        (server_2(state="drain"), "server-2 is declared drain"),
        (server_2(sample_age_s=None), "server-2 has no fresh sample"),
        (server_2(sample_age_s=3.1), "server-2 has no fresh sample"),
        (lambda seen: seen["overview"].update(load_balancers={"edge-1": None}), "edge-1 has no fresh report"),
        (lambda seen: seen.update(status=None), "nginx does not show its status"),
        (lambda seen: seen.update(workers=3), "nginx has 3 workers, not 2"),
        (web(rung="hold", last_fetch="timeout"), "nginx's weights rest on hold (timeout)"),
        (web(peers=[{"id": "server-1", "eligible": True}]), "nginx serves 1 servers, not the stage's 2"),
        (
            web(peers=[{"id": "server-1", "eligible": False}, {"id": "server-2", "eligible": True}]),
            "server-1 not eligible in nginx",
        ),
    ],
)
def test_each_problem_is_named(change: Callable[[Documents], object], reason: str) -> None:
    assert but(change) == reason


def test_the_cause_is_named_before_its_effects() -> None:
    def all_at_once(seen: Documents) -> None:
        seen.update(stopped=("memcached does not run",), status=None, overview=None)

    assert but(all_at_once) == "memcached does not run"


def test_two_leaders_are_none() -> None:
    one, two = {"role": "leader"}, {"role": "standby"}
    assert leader({"a": two, "b": one}) == "b"
    assert leader({"a": one, "b": one}) is None
    assert leader({"a": None, "b": two}) is None
