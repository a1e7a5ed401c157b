"""Every alert fires for its cause, none fires while all is well (promtool), and the guide explains each."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.rendered_chart import ROOT, read_yaml

ALERTS = ROOT / "monitoring/alerts.yml"
PROMTOOL = ROOT / ".run/promtool/promtool"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in read_yaml(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}

EVERY_S = 5
# The rules are evaluated less often, most rarely in a test of one moment: evaluations take most of promtool's
# CPU time.
OFTEN_EVERY_S, ONCE_EVERY_S = 10, 120
END_S = 1200

# Series while all is well, with their values in promtool's notation, one every five seconds.
# Controller `a` leads. `stale` means that the target no longer exports the series.
ALWAYS, NEVER, STANDS, GROWS, NOWHERE = "1x240", "0x240", "3x240", "0+1x240", "_x240"
ROOM, MOST_OF_IT = "100x240", "91x240"
WELL = {
    'up{job="steelyard-nginx",instance="n"}': ALWAYS,
    'up{job="steelyard-controller",instance="a"}': ALWAYS,
    'up{job="steelyard-controller",instance="b"}': ALWAYS,
    'steelyard_leader{job="steelyard-controller",instance="a"}': ALWAYS,
    'steelyard_leader{job="steelyard-controller",instance="b"}': NEVER,
    'steelyard_controller_degraded{job="steelyard-controller",instance="a"}': NEVER,
    'steelyard_tick_age_seconds{job="steelyard-controller",instance="a",upstream="web"}': ALWAYS,
    'steelyard_degraded{job="steelyard-controller",instance="a",upstream="web"}': NEVER,
    'steelyard_carries_requests_per_second{job="steelyard-controller",instance="a",upstream="web"}': "70x240",
    'steelyard_could_carry_requests_per_second{job="steelyard-controller",instance="a",upstream="web"}': ROOM,
    'steelyard_lb_higher_term{job="steelyard-controller",instance="a",upstream="web",lb="edge-1"}': NEVER,
    'steelyard_tick_failures_total{job="steelyard-controller",instance="a",upstream="web"}': STANDS,
    'steelyard_tick_overruns_total{job="steelyard-controller",instance="a",upstream="web"}': STANDS,
    'steelyard_peer_measured{job="steelyard-controller",instance="a",upstream="web",peer="s"}': ALWAYS,
    'steelyard_peers_unmeasured{job="steelyard-controller",instance="a",upstream="web"}': NEVER,
    'steelyard_lb_reporting{job="steelyard-controller",instance="a",upstream="web",lb="edge-1"}': ALWAYS,
    'steelyard_refused_total{job="steelyard-controller",instance="a",upstream="web",reason="name"}': STANDS,
    'steelyard_table_refused_total{job="steelyard-nginx",instance="n",upstream="web",reason="key"}': STANDS,
    'steelyard_table_refused_total{job="steelyard-nginx",instance="n",upstream="web",reason="older"}': GROWS,
    'steelyard_upstream_fail_open{job="steelyard-nginx",instance="n",upstream="web"}': NEVER,
    'steelyard_upstream_retries_refused_total{job="steelyard-nginx",instance="n",upstream="web"}': STANDS,
    'steelyard_upstream_full_total{job="steelyard-nginx",instance="n",upstream="web"}': STANDS,
    'steelyard_dict_refused_total{job="steelyard-nginx",instance="n"}': STANDS,
    'steelyard_upstream_rung{job="steelyard-nginx",instance="n",upstream="web",rung="fresh"}': ALWAYS,
    'steelyard_peer_eligible{job="steelyard-nginx",instance="n",upstream="web",peer="s"}': ALWAYS,
    'steelyard_peer_requests_total{job="steelyard-nginx",upstream="web",outcome="ok"}': "0+9x240",
    'steelyard_peer_requests_total{job="steelyard-nginx",upstream="web",outcome="failed"}': STANDS,
}  # fmt: skip

WEB = {"upstream": "web"}
TO_EDGE, OF_SERVER = WEB | {"lb": "edge-1"}, WEB | {"peer": "s"}

# For each alert: its cause, as words of series with their values then; and the labels of the alert.
FIRED = {
    "SteelyardLittleHeadroom": ({"carries": MOST_OF_IT}, WEB),
    "SteelyardRequestsFail": ({'outcome="failed"': "0+2x240"}, WEB),
    "SteelyardFailOpen": ({"fail_open": ALWAYS}, WEB | {"instance": "n"}),
    "SteelyardRetriesRefused": ({"retries_refused": GROWS}, WEB),
    "SteelyardServersFull": ({"full_total": GROWS}, WEB),
    "SteelyardSharedDictFull": ({"dict_refused": GROWS}, {"instance": "n"}),
    "SteelyardNginxDown": (
        {'up{job="steelyard-nginx"': NEVER},
        {"instance": "n", "job": "steelyard-nginx"},
    ),
    "SteelyardWeightsNotFresh": ({"rung": NEVER}, WEB | {"instance": "n"}),
    "SteelyardNoLeader": ({'leader{job="steelyard-controller",instance="a"': NEVER}, {}),
    "SteelyardTwoLeaders": ({'leader{job="steelyard-controller",instance="b"': ALWAYS}, {}),
    "SteelyardTicksStand": ({"tick_age": "0+5x240"}, WEB),
    "SteelyardNoStandby": ({'up{job="steelyard-controller",instance="b"': NEVER}, {}),
    "SteelyardDegraded": ({"controller_degraded": ALWAYS}, {"instance": "a"}),
    "SteelyardUpstreamDegraded": ({"steelyard_degraded": ALWAYS}, WEB),
    "SteelyardHigherTerm": ({"higher_term": ALWAYS}, TO_EDGE),
    "SteelyardTicksFail": ({"tick_failures": GROWS}, WEB),
    "SteelyardOverruns": ({"tick_overruns": GROWS}, {}),
    "SteelyardServerNotMeasured": ({"peer_measured": NEVER}, OF_SERVER),
    "SteelyardServersNotMeasured": ({"peer_measured": NOWHERE, "peers_unmeasured": ALWAYS}, WEB),
    "SteelyardNoTrafficReports": ({"lb_reporting": NEVER}, TO_EDGE),
    "SteelyardRefused": ({"steelyard_refused": GROWS}, WEB | {"reason": "name"}),
    "SteelyardFlapping": (
        {"eligible": "0 1 " * 120},
        OF_SERVER | {"instance": "n", "job": "steelyard-nginx"},
    ),
}


def series(other: Mapping[str, str]) -> dict[str, str]:
    """Return all series, with other values for the series with these words, one each."""
    told = dict(WELL)
    for words, values in other.items():
        (name,) = (each for each in WELL if words in each)
        told[name] = values
    return told


def install(told: Mapping[str, str], namespace: str) -> dict[str, str]:
    """Return the same series with the labels that the chart's monitors give them."""
    labels = f'namespace="{namespace}",install="steelyard",'
    return {name.replace("{", "{" + labels, 1): values for name, values in told.items()}


def group(
    name: str, told: Mapping[str, str], query: str, at_s: list[int], expected: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a group of promtool's tests: a query has exactly these samples at each time."""
    return {
        "name": name,
        "interval": f"{EVERY_S}s",
        "input_series": [{"series": name, "values": values} for name, values in told.items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": f"{now_s}s", "exp_samples": expected} for now_s in at_s
        ],
    }


def firing(
    name: str, told: Mapping[str, str], at_s: list[int], expected: list[Mapping[str, str]]
) -> dict[str, Any]:
    """Return a group that asserts that exactly these alerts fire at each time."""
    samples = [{"labels": f"ALERTS{_text(each)}", "value": 1} for each in expected]
    return group(name, told, 'ALERTS{alertstate="firing"}', at_s, samples)


def check(folder: Path, *groups: dict[str, Any]) -> None:
    """Assert that all groups pass: in one run, because the start of promtool takes longer than a group."""
    often = any(len(each["promql_expr_test"]) > 1 for each in groups)
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": f"{OFTEN_EVERY_S if often else ONCE_EVERY_S}s",
        "tests": groups,
    }
    file = folder / "test.yml"
    file.write_text(json.dumps(test), encoding="utf-8")
    promtool("test", "rules", str(file))


def promtool(*arguments: str) -> None:
    """Assert that promtool finds nothing."""
    if not PROMTOOL.exists():
        pytest.fail("promtool is not here: run scripts/promtool, or `make setup-tests`")
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items()) + "}"


def alert(name: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a firing alert."""
    return {"alertname": name, "alertstate": "firing", **RULES[name]["labels"], **labels}


def test_promtool_finds_nothing_in_prometheuss_configuration_and_the_rules_that_it_names() -> None:
    promtool("check", "config", "--lint=all", "--lint-fatal", str(ROOT / "monitoring/prometheus.yml"))


def test_every_alert_has_its_test() -> None:
    assert list(FIRED) == list(RULES)


def test_each_alert_fires_when_what_it_is_about_happens_and_no_other(tmp_path: Path) -> None:
    check(
        tmp_path,
        *(
            firing(name, series(happens), [END_S], [alert(name, labels)])
            for name, (happens, labels) in FIRED.items()
        ),
    )


def test_each_alert_is_about_one_of_two_installs_under_one_prometheus(tmp_path: Path) -> None:
    concerned, production = {"namespace": "staging", "install": "steelyard"}, install(WELL, "production")
    check(
        tmp_path,
        *(
            firing(
                name,
                production | install(series(happens), "staging"),
                [END_S],
                [alert(name, labels | concerned)],
            )
            for name, (happens, labels) in FIRED.items()
        ),
    )


# The alerts that a controller, a load balancer or a key can cause, and their labels at ten upstreams.
OF_MANY: dict[str, dict[str, str]] = {
    "SteelyardWeightsNotFresh": {"instance": "n"},
    "SteelyardTicksStand": {},
    "SteelyardUpstreamDegraded": {},
    "SteelyardHigherTerm": {"lb": "edge-1"},
    "SteelyardTicksFail": {},
    "SteelyardOverruns": {},
    "SteelyardNoTrafficReports": {"lb": "edge-1"},
    "SteelyardRefused": {"reason": "name"},
}


def times(told: Mapping[str, str], label: str, count: int = 10) -> dict[str, str]:
    """Return each series with this label once for each of `count` values of it."""
    name = label.partition("=")[0]
    return {
        each.replace(label, f'{name}="{number}"'): values
        for each, values in told.items()
        for number in (range(count) if label in each else range(1))
    }


def test_one_cause_at_ten_upstreams_servers_or_load_balancers_is_one_alert(tmp_path: Path) -> None:
    upstreams = [
        firing(name, times(series(FIRED[name][0]), 'upstream="web"'), [END_S], [alert(name, labels)])
        for name, labels in OF_MANY.items()
    ]
    not_fresh = times(times(series({"rung": NEVER}), 'upstream="web"'), 'instance="n"')
    servers = times(series({"peer_measured": NEVER}), 'peer="s"')
    check(
        tmp_path,
        *upstreams,
        firing("load balancers", not_fresh, [END_S], [alert("SteelyardWeightsNotFresh", {})]),
        firing("servers", servers, [END_S], [alert("SteelyardServerNotMeasured", WEB)]),
    )


def test_what_nginx_alone_refuses_is_told_too(tmp_path: Path) -> None:
    happens = {'reason="key"': GROWS}
    refused = alert("SteelyardRefused", WEB | {"reason": "key"})
    check(tmp_path, firing("refused by nginx", series(happens), [END_S], [refused]))


# After four minutes `a` is gone, and half a minute later `b` leads.
UNTIL_S, FROM_S = 240, 270
# The longest window of a rule, ten minutes, then holds no series of `a`.
FORGOTTEN_S = 900
ENDS, BEGINS = UNTIL_S // EVERY_S, FROM_S // EVERY_S
OTHER_LEADER = {
    'leader{job="steelyard-controller",instance="a"': f"1x{ENDS} 0x{240 - ENDS}",
    'leader{job="steelyard-controller",instance="b"': f"0x{BEGINS} 1x{240 - BEGINS}",
}
LED = (
    "carries",
    "could_carry",
    "tick_age",
    "tick_failures",
    "tick_overruns",
    "peer_measured",
    "peers_unmeasured",
    "lb_reporting",
)


def handed_over(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Return all series during a takeover, with the values of each leader."""
    told = series(OTHER_LEADER)
    for words in LED:
        (name,) = (each for each in WELL if words in each)
        value = WELL[name].removesuffix("x240")
        told[name] = f"{first.get(words, value)}x{ENDS} stale"
        later = then.get(words, f"{value}x{240 - BEGINS}")
        told[name.replace('instance="a"', 'instance="b"')] = f"_x{BEGINS} {later}"
    return told


STAYS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("SteelyardNoTrafficReports", {"lb_reporting": "0"}, TO_EDGE),
    ("SteelyardServerNotMeasured", {"peer_measured": "0"}, OF_SERVER),
    ("SteelyardServersNotMeasured", {"peer_measured": "_", "peers_unmeasured": "7"}, WEB),
    ("SteelyardTicksFail", {"tick_failures": "0+1"}, WEB),
    ("SteelyardLittleHeadroom", {"carries": "95"}, WEB),
]


def test_another_leader_ends_no_alert_and_begins_none_while_it_has_heard_nobody(tmp_path: Path) -> None:
    ends_none = [
        firing(
            name,
            handed_over(stays, {words: f"{value}x{240 - BEGINS}" for words, value in stays.items()}),
            list(range(UNTIL_S, FORGOTTEN_S, OFTEN_EVERY_S)),
            [alert(name, labels)],
        )
        for name, stays, labels in STAYS
    ]
    heard = f"0x1 1x{240 - BEGINS}"
    then = {"lb_reporting": heard, "peer_measured": heard, "peers_unmeasured": f"1x1 0x{240 - BEGINS}"}
    begins_none = firing("begins none", handed_over({}, then), list(range(0, FORGOTTEN_S, OFTEN_EVERY_S)), [])
    check(tmp_path, *ends_none, begins_none)


def test_none_fires_while_all_is_well(tmp_path: Path) -> None:
    check(tmp_path, firing("all is well", WELL, list(range(0, END_S, 60)), []))


def test_the_guide_explains_every_alert_with_its_severity() -> None:
    guide = (ROOT / "docs/guides/alerts.md").read_text(encoding="utf-8")
    explained = dict(re.findall(r"^### (Steelyard\w+)\n\n\*(\w+)\.\*", guide, re.MULTILINE))
    assert explained == {name: rule["labels"]["severity"] for name, rule in RULES.items()}
