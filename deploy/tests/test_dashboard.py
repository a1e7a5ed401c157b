"""Grafana's dashboard is as Grafana's own types have it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from deploy.tests.rendered_chart import ROOT

DASHBOARD = json.loads((ROOT / "monitoring/grafana/dashboards/steelyard.json").read_text(encoding="utf-8"))
# From Grafana's own types: its "$comment" says how it was made.
GRAFANA = json.loads((Path(__file__).parent / "grafana_schema.json").read_text(encoding="utf-8"))

PANELS: dict[str, dict[str, Any]] = {panel["title"]: panel for panel in DASHBOARD["panels"]}


def mistakes(schema: Mapping[str, Any], document: object) -> list[str]:
    """Return what Grafana's schema finds."""
    found = jsonschema.Draft7Validator(schema).iter_errors(document)
    return [f"{'/'.join(map(str, each.absolute_path))}: {each.message}" for each in found]


def test_the_dashboard_is_as_grafanas_schema_has_it() -> None:
    whole = GRAFANA["Dashboard"]
    assert mistakes(whole, DASHBOARD) == []
    panel_schema = {**whole, "$ref": "#/definitions/Panel"}
    for title, panel in PANELS.items():
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        options = {"stat": "StatOptions", "timeseries": "TimeseriesOptions"}[panel["type"]]
        found = mistakes(panel_schema, panel) + mistakes(GRAFANA[options], panel["options"])
        assert (title, found + mistakes(GRAFANA["TimeseriesFieldConfig"], custom)) == (title, [])


def test_grafanas_schema_finds_a_mistake() -> None:
    broken = {**DASHBOARD, "panels": [{**DASHBOARD["panels"][0], "gridPos": {"x": "left"}}]}
    assert mistakes(GRAFANA["Dashboard"], broken)
    assert mistakes(GRAFANA["StatOptions"], {"colorMode": "sepia"})


def test_no_two_panels_have_one_id_or_one_place() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
