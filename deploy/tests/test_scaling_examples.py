"""The autoscalers of docs/guides/kubernetes.md use the recording rule and start servers in time."""

from pathlib import Path
from typing import Any

from deploy.tests.rendered_chart import read_yaml
from deploy.tests.test_alerts import END_S, MOST_OF_IT, NOWHERE, RULES, check, group, install, series
from deploy.tests.test_docs_kubernetes import YAML


def example(kind: str) -> dict[str, Any]:
    return next(each for each in YAML if each.get("kind") == kind)


def adapter_rule() -> dict[str, Any]:
    maps = [each for each in YAML if each.get("kind") == "ConfigMap"]
    (rule,) = read_yaml(maps[0]["data"]["config.yaml"])["externalRules"]
    return dict(rule)


def external() -> dict[str, Any]:
    (metric,) = example("HorizontalPodAutoscaler")["spec"]["metrics"]
    return dict(metric["external"])


def trigger() -> dict[str, Any]:
    (one,) = example("ScaledObject")["spec"]["triggers"]
    return dict(one)


def queries() -> list[str]:
    """Return the queries for the upstream `web`, with the adapter's template filled in."""
    rule = adapter_rule()
    labels = external()["metric"]["selector"]["matchLabels"]
    assert labels == {"namespace": "steelyard", "upstream": "cart"}
    matcher = ",".join(f'{label}="{value}"' for label, value in labels.items())
    name = rule["seriesQuery"].removeprefix('{__name__="').removesuffix('"}')
    asks = rule["metricsQuery"].replace("<<.Series>>", name).replace("<<.LabelMatchers>>", matcher)
    return [
        each.replace('upstream="cart"', 'upstream="web"')
        for each in (f"sum({asks})", trigger()["metadata"]["query"])
    ]


def test_each_example_gets_what_is_used_of_its_upstream(tmp_path: Path) -> None:
    staging = install(series({"carries": MOST_OF_IT}), "staging")
    check(
        tmp_path,
        *(
            group(query, install(series(happens), "steelyard") | staging, query, [END_S], expected)
            for query in queries()
            for happens, expected in (
                ({}, [{"labels": "{}", "value": 0.7}]),
                ({"carries": MOST_OF_IT}, [{"labels": "{}", "value": 0.91}]),
                ({"could_carry": NOWHERE}, []),
            )
        ),
    )


def test_the_metric_that_is_asked_for_is_the_one_that_the_adapter_has() -> None:
    assert external()["metric"]["name"] == adapter_rule()["name"]["as"]


def test_both_act_before_the_alert_and_by_the_figure_itself() -> None:
    assert external()["target"] == {"type": "Value", "value": "750m"}
    assert (trigger()["metricType"], float(trigger()["metadata"]["threshold"])) == ("Value", 0.75)
    assert float(RULES["SteelyardLittleHeadroom"]["expr"].split(">")[1]) > 0.75


def test_keda_is_given_what_its_scaler_takes_and_no_figure_is_not_zero() -> None:
    # As documented: https://keda.sh/docs/latest/scalers/prometheus/
    assert trigger()["metadata"].keys() == {"serverAddress", "query", "threshold", "ignoreNullValues"}
    assert trigger()["metadata"]["ignoreNullValues"] == "false"
    assert example("ScaledObject")["spec"]["minReplicaCount"] > 0
