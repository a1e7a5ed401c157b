"""Every alert fires for its cause, none fires while all is well (promtool), and the guide explains each."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.tests.rendered_chart import ROOT

ALERTS = ROOT / "monitoring/alerts.yml"
PROMTOOL = ROOT / ".run/promtool/promtool"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}

EVERY_S = 5
# A test of one moment evaluates the rules less often. Evaluations take most of promtool's CPU time.
ONCE_EVERY_S = 60
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


def firing(told: Mapping[str, str], at_s: list[int], expected: list[Mapping[str, str]], folder: Path) -> None:
    """Assert that exactly these alerts fire at each time."""
    samples = [{"labels": f"ALERTS{_text(each)}", "value": 1} for each in expected]
    asked(told, 'ALERTS{alertstate="firing"}', at_s, samples, folder)


def asked(
    told: Mapping[str, str], query: str, at_s: list[int], expected: list[dict[str, Any]], folder: Path
) -> None:
    """Assert that a query has exactly these samples at each time."""
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": f"{EVERY_S if len(at_s) > 1 else ONCE_EVERY_S}s",
        "tests": [
            {
                "interval": f"{EVERY_S}s",
                "input_series": [{"series": name, "values": values} for name, values in told.items()],
                "promql_expr_test": [
                    {
                        "expr": query,
                        "eval_time": f"{now_s}s",
                        "exp_samples": expected,
                    }
                    for now_s in at_s
                ],
            }
        ],
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


@pytest.mark.parametrize("name", FIRED)
def test_an_alert_fires_when_what_it_is_about_happens_and_no_other(name: str, tmp_path: Path) -> None:
    happens, labels = FIRED[name]
    firing(series(happens), [END_S], [alert(name, labels)], tmp_path)


@pytest.mark.parametrize("name", FIRED)
def test_an_alert_is_about_one_of_two_installs_under_one_prometheus(name: str, tmp_path: Path) -> None:
    happens, labels = FIRED[name]
    both = install(WELL, "production") | install(series(happens), "staging")
    concerned = {"namespace": "staging", "install": "steelyard"}
    firing(both, [END_S], [alert(name, labels | concerned)], tmp_path)


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


@pytest.mark.parametrize("name", OF_MANY)
def test_one_cause_at_ten_upstreams_is_one_alert(name: str, tmp_path: Path) -> None:
    happens, _ = FIRED[name]
    told = times(series(happens), 'upstream="web"')
    firing(told, [END_S], [alert(name, OF_MANY[name])], tmp_path)


def test_ten_load_balancers_without_news_are_one_alert(tmp_path: Path) -> None:
    told = times(times(series({"rung": NEVER}), 'upstream="web"'), 'instance="n"')
    firing(told, [END_S], [alert("SteelyardWeightsNotFresh", {})], tmp_path)


def test_ten_servers_of_an_upstream_without_samples_are_one_alert(tmp_path: Path) -> None:
    told = times(series({"peer_measured": NEVER}), 'peer="s"')
    firing(told, [END_S], [alert("SteelyardServerNotMeasured", WEB)], tmp_path)


def test_what_nginx_alone_refuses_is_told_too(tmp_path: Path) -> None:
    happens = {'reason="key"': GROWS}
    firing(series(happens), [END_S], [alert("SteelyardRefused", WEB | {"reason": "key"})], tmp_path)


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


@pytest.mark.parametrize(
    ("name", "stays", "labels"),
    [
        ("SteelyardNoTrafficReports", {"lb_reporting": "0"}, TO_EDGE),
        ("SteelyardServerNotMeasured", {"peer_measured": "0"}, OF_SERVER),
        ("SteelyardServersNotMeasured", {"peer_measured": "_", "peers_unmeasured": "7"}, WEB),
        ("SteelyardTicksFail", {"tick_failures": "0+1"}, WEB),
        ("SteelyardLittleHeadroom", {"carries": "95"}, WEB),
    ],
)
def test_another_leader_ends_no_alert(
    name: str, stays: Mapping[str, str], labels: Mapping[str, str], tmp_path: Path
) -> None:
    told = handed_over(stays, {words: f"{value}x{240 - BEGINS}" for words, value in stays.items()})
    firing(told, list(range(UNTIL_S, FORGOTTEN_S, EVERY_S)), [alert(name, labels)], tmp_path)


def test_another_leader_that_has_heard_nobody_yet_begins_none(tmp_path: Path) -> None:
    heard = f"0x1 1x{240 - BEGINS}"
    then = {"lb_reporting": heard, "peer_measured": heard, "peers_unmeasured": f"1x1 0x{240 - BEGINS}"}
    firing(handed_over({}, then), list(range(0, FORGOTTEN_S, EVERY_S)), [], tmp_path)


def test_none_fires_while_all_is_well(tmp_path: Path) -> None:
    firing(WELL, list(range(0, END_S, 60)), [], tmp_path)


def test_the_guide_explains_every_alert_with_its_severity() -> None:
    guide = (ROOT / "docs/guides/alerts.md").read_text(encoding="utf-8")
    explained = dict(re.findall(r"^### (Steelyard\w+)\n\n\*(\w+)\.\*", guide, re.MULTILINE))
    assert explained == {name: rule["labels"]["severity"] for name, rule in RULES.items()}
