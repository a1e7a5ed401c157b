"""docs/reference/metrics.md has every metric that a component exports, with its type."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from steelyard_controller.api import metrics
from steelyard_controller.discovery.discovery import Discovery
from steelyard_controller.instruments import Instruments

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")

PROMETHEUS_LUA = "openresty/steelyard/lib/steelyard/core/prometheus.lua"
AGENT_SOURCES = (
    "agent/steelyard_agent/outputs/metrics.py",
    "agent/steelyard_agent/outputs/node_metrics.py",
)


def on_the_page(component: str) -> dict[str, str]:
    """Return the type of each metric in a component's section."""
    section = PAGE.split(f"\n## {component}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE))


def of_the_controller() -> dict[str, str]:
    """Return the type of each family that `/metrics` declares; `_created` is the client library's."""
    source = metrics.Source(views={}, discovery=cast(Discovery, SimpleNamespace(watches=())))
    text = metrics.render(source, now_s=0.0, instruments=Instruments("1.0")).decode()
    families = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    return {name: kind for name, kind in families if not name.endswith("_created")}


def of_nginx() -> dict[str, str]:
    """Return the type of each family in the tables of the Lua module."""
    text = (ROOT / PROMETHEUS_LUA).read_text(encoding="utf-8")
    kinds = "gauge|counter|summary|histogram"
    return {f"steelyard_{name}": kind for name, kind in re.findall(rf'{{ "(\w+)", "({kinds})", "', text)}


def of_the_agent() -> dict[str, str]:
    """Return the type of each family that the two pages of agents write."""
    text = "".join((ROOT / path).read_text(encoding="utf-8") for path in AGENT_SOURCES)
    return dict(re.findall(r'family\(\s*"(\w+)", "(\w+)"', text))


@pytest.mark.parametrize(
    ("component", "exported"),
    [("Controller", of_the_controller()), ("nginx", of_nginx()), ("Agent", of_the_agent())],
)
def test_the_page_has_exactly_the_metrics_of_a_component(component: str, exported: dict[str, str]) -> None:
    assert len(exported) > 5
    assert on_the_page(component) == exported


def test_alerts_and_the_configuration_of_prometheus_use_metrics_of_the_page() -> None:
    text = (ROOT / "monitoring/alerts.yml").read_text(encoding="utf-8")
    expressions = re.findall(r"steelyard_\w+(?=[{\[)\s])", text)
    known = {name for part in ("Controller", "nginx", "Agent") for name in on_the_page(part)}
    parts_of_families = {f"{name}{suffix}" for name in known for suffix in ("_bucket", "_sum", "_count")}
    assert expressions
    assert [name for name in expressions if name not in known | parts_of_families] == []
