"""The dashboard has data, and no alert fires, for a fleet of nginx, of Envoy and of HAProxy alone.

A real controller decides for three upstreams; a real nginx, Envoy, and HAProxy with its reporter serve one
each. Their /metrics are read twice, and become promtool's series: for each fleet those of its upstream.
"""

import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pymemcache.client.base import Client
from steelyard_protocol import wire

from deploy.tests.rendered_chart import ROOT
from deploy.tests.test_alerts import ALERTS, promtool
from openresty.tests.nginx_process import Edge, config, one_upstream
from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.meanwhile import meanwhile
from testing.waiting import wait_until

from ..examples import sample
from ..processes import LOCAL, controller
from ..xds.envoy_process import Web, cluster, documented, envoy, webs

pytestmark = pytest.mark.integration

DASHBOARD = json.loads((ROOT / "monitoring/grafana/dashboards/steelyard.json").read_text(encoding="utf-8"))

# Each fleet's upstream and load balancer.
FLEETS = {"web": "edge-1", "envoy": "envoy-1", "haproxy": "haproxy-1"}

# Only nginx exports its own rung, and whether a server may get requests there. Envoy reports no latency.
OF_NGINX = {"Rung: the source of the weights", "May get requests"}
WITHOUT: dict[str, set[str]] = {
    "web": set(),
    "envoy": {*OF_NGINX, "Mean latency by server"},
    "haproxy": OF_NGINX,
}

# These depend on how fast this machine is, and on samples that are made up.
OF_THE_MACHINE = "Steelyard(LittleHeadroom|Overruns|TicksStand|.*Degraded|.*NotMeasured|NoTrafficReports)"

EVERY_S, AT_S = 5, 120

Families = list[Any]


def scraped(url: str) -> Families:
    """Return the metric families of a page."""
    return list(text_string_to_metric_families(LOCAL.get(url).raise_for_status().text))


def series(first: Families, then: Families, fleet: str, **target: str) -> dict[str, str]:
    """Return promtool's series of a fleet: counters go on as between two scrapes, gauges stay."""
    before = {(each.name, *each.labels.items()): each.value for family in first for each in family.samples}
    made = {}
    for family in then:
        counts = family.type in ("counter", "summary", "histogram")
        for each in family.samples:
            if each.labels.get("upstream", fleet) != fleet:
                continue
            start = before.get((each.name, *each.labels.items()), 0.0) if counts else each.value
            labels = ",".join(
                f"{key}={json.dumps(value)}" for key, value in {**target, **each.labels}.items()
            )
            made[f"{each.name}{{{labels}}}"] = f"{start}+{each.value - start}x{AT_S // EVERY_S}"
    return made


def expressions(fleet: str) -> dict[str, list[str]]:
    """Return the expressions of the dashboard's variables and panels, with this upstream chosen."""
    chosen = {"$namespace": ".*", "$install": ".*", "$upstream": fleet}
    found = {}
    variables = [
        re.fullmatch(r"label_values\((.*), \w+\)", each["query"]["query"])
        for each in DASHBOARD["templating"]["list"]
    ]
    panels = {f"variable {n}": [each[1]] for n, each in enumerate(variables) if each is not None}
    panels |= {panel["title"]: [each["expr"] for each in panel["targets"]] for panel in DASHBOARD["panels"]}
    for title, texts in panels.items():
        for name, value in chosen.items():
            texts = [text.replace(name, value) for text in texts]
        found[title] = texts
    return found


def rules() -> list[dict[str, Any]]:
    """Return the alerts and the recording rules."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def agents(memcached: Daemon, peers: tuple[str, ...]) -> contextlib.AbstractContextManager[None]:
    """Send samples of every fleet's servers, as their agents do, until the end of the block."""

    def send(ended: threading.Event) -> None:
        client = Client(("127.0.0.1", memcached.port))
        for seq in range(1, 1000):
            at_ms = time.time_ns() // 1_000_000
            for fleet in FLEETS:
                for peer in peers:
                    text = sample(peer, seq=seq, upstream=fleet, taken_at_ms=at_ms)
                    client.set(wire.sample_key(fleet, peer), text, noreply=False)
            if ended.wait(1.0 - time.time() % 1.0):
                break
        client.close()

    return meanwhile(send)


HAPROXY = (ROOT / "docs/guides/haproxy.md").read_text(encoding="utf-8")


@contextlib.contextmanager
def haproxy(memcached: Daemon, folder: Path, servers: dict[str, Web]) -> Iterator[str]:
    """Run HAProxy with the guide's configuration, and its reporter; yield HAProxy's URL."""
    port, admin = free_port(), folder / "admin.sock"
    text = re.findall(r"```haproxy\n(.*?)```", HAPROXY, re.DOTALL)[0]
    for old, new in (
        ("/run/haproxy/admin.sock mode 660 group haproxy", f"{admin} mode 600"),
        ("bind :8080", f"bind 127.0.0.1:{port}"),
        ("10.0.0.11:80", f"127.0.0.1:{servers['server-1'].port}"),
        ("10.0.0.12:80", f"127.0.0.1:{servers['server-2'].port}"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    file = folder / "haproxy.cfg"
    file.write_text(text)
    daemon = Daemon(["haproxy", "-db", "-f", str(file)], port, folder / "haproxy.log")
    command = [sys.executable, "-m", "steelyard_reporter", "haproxy", "--lb", FLEETS["haproxy"]]
    command += ["--memcached", memcached.address, "--socket", str(admin), "--upstreams", "haproxy=web"]
    daemon.start()
    with (folder / "reporter.log").open("wb") as log:
        reporter = warm_start.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        reporter.kill()
        reporter.wait()
        daemon.kill()


def pages_of_real_daemons(memcached: Daemon, folder: Path) -> tuple[list[Families], list[Families]]:
    """Return two scrapes of a controller and of an nginx, with requests in between at every fleet."""
    xds = free_port()
    with contextlib.ExitStack() as daemons:
        servers = daemons.enter_context(webs("server-1", "server-2"))
        peers = [{"id": name, "address": f"127.0.0.1:{web.port}"} for name, web in servers.items()]
        declared = {fleet: {"peers": peers, "load_balancers": [lb]} for fleet, lb in FLEETS.items()}
        file = folder / "fleets.yaml"
        file.write_text(yaml.safe_dump({"upstreams": declared}))
        flags = ["--config", str(file), "--memcached", memcached.address, "--state-url", "memory://"]
        daemons.enter_context(agents(memcached, tuple(servers)))
        leader = daemons.enter_context(
            controller(folder, *flags, "--tick-s", "1", "--xds-port", str(xds), "--lease-s", "3")
        )
        leader.wait("leader")

        page = 'location = /metrics { content_by_lua_block { require("steelyard").metrics() } } }'
        options = "report_interval_s = 1, upstreams = { web = {} },"
        nginx = Edge(folder / "nginx", config(one_upstream(memcached.port, options, page), 1, ""), 1)
        daemons.callback(nginx.stop)

        document = documented()
        cluster(document, "web")["eds_cluster_config"]["service_name"] = "envoy"
        edge = daemons.enter_context(envoy(folder, document, [xds], node=FLEETS["envoy"]))

        balancer = daemons.enter_context(haproxy(memcached, folder, servers))

        def scrape() -> list[Families]:
            return [scraped(f"{leader.url}/metrics"), scraped(f"http://127.0.0.1:{nginx.port}/metrics")]

        def ask(times: int) -> None:
            for _ in range(times):
                nginx.get()
                edge.requests(1)
                LOCAL.get(balancer)

        def reported(pages: list[Families]) -> dict[str, float]:
            """Return the number of reported requests by fleet."""
            counts = dict.fromkeys(FLEETS, 0.0)
            for each in (each for family in pages[0] for each in family.samples):
                if each.name == "steelyard_peer_reported_requests_total":
                    counts[each.labels["upstream"]] += each.value
            return counts

        def all_count() -> list[Families] | None:
            ask(10)
            pages = scrape()
            return pages if min(reported(pages).values()) > 0 else None

        wait_until(lambda: edge.weights(), "Envoy has its endpoints")
        first = wait_until(all_count, lambda: f"reports of all: {reported(scrape())}")
        known = reported(first)

        def all_count_more() -> list[Families] | None:
            ask(10)
            pages = scrape()
            more = reported(pages)
            return pages if all(more[fleet] > known[fleet] for fleet in FLEETS) else None

        return first, wait_until(all_count_more, "further reports of all")


def test_every_panel_has_data_and_no_alert_fires_for_a_fleet_of_each_kind(
    memcached: Daemon, tmp_path: Path
) -> None:
    first, then = pages_of_real_daemons(memcached, tmp_path)
    tests: list[dict[str, Any]] = []
    for fleet in FLEETS:
        jobs = ["steelyard-controller", *(["steelyard-nginx"] if fleet == "web" else [])]
        told: dict[str, str] = {}
        for job, before, after in zip(jobs, first, then, strict=False):
            target = {"job": job, "instance": job}
            told |= series(before, after, fleet, **target)
            told[f'up{{job="{job}",instance="{job}"}}'] = f"1x{AT_S // EVERY_S}"
        # A panel of several expressions may lack figures that are still to be learnt.
        shown = {
            title: " or ".join(f"({text})" for text in texts)
            for title, texts in expressions(fleet).items()
            if title not in WITHOUT[fleet]
        }
        # The comparison drops figures that are no number.
        asked = [f"count(({text}) >= 0) > bool 0" for text in shown.values()]
        has_data = [
            {"expr": text, "eval_time": f"{AT_S}s", "exp_samples": [{"labels": "{}", "value": 1}]}
            for text in asked
        ]
        fires = f'ALERTS{{alertstate="firing",alertname!~"{OF_THE_MACHINE}"}}'
        no_alert = {"expr": fires, "eval_time": f"{AT_S}s", "exp_samples": []}
        inputs = [{"series": name, "values": values} for name, values in told.items()]
        tests.append(
            {
                "interval": f"{EVERY_S}s",
                "name": fleet,
                "input_series": inputs,
                "promql_expr_test": [*has_data, no_alert],
            }
        )
    file = tmp_path / "fleets.json"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": tests}))
    promtool("test", "rules", str(file))
    # No expression of an alert or a panel names a series that the daemons do not export.
    exported = {each.name for page in then for family in page for each in family.samples} | {"up"}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    texts = [
        *(rule["expr"] for rule in rules()),
        *(text for each in expressions("web").values() for text in each),
    ]
    named = set(re.findall(r"(?<![\w:])(?:\w+:)?steelyard_\w+(?::\w+)?", " ".join(texts)))
    assert named - exported - recorded == set()
