"""A real Envoy and real controllers with the configuration of docs/guides/envoy.md and its variants."""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
import yaml

from testing.certificates import Authority
from testing.daemons import Daemon, free_port, listens
from testing.waiting import wait_until

from ..processes import LOCAL, Controller, controller, own_token
from .envoy_process import Web, cluster, documented, envoy, webs

pytestmark = pytest.mark.integration

NAMES = ("server-1", "server-2", "server-3")
PINS = (20, 30, None)
LONG = 20


class Steelyard:
    """Controllers on one Memcached and one Redis, with some declared servers."""

    def __init__(self, memcached: Daemon, redis: Daemon, folder: Path, servers: dict[str, Web]) -> None:
        self.ports = {name: web.port for name, web in servers.items()}
        self._folder = folder
        self._config = folder / "controller.yaml"
        peers = [
            {"id": name, "address": f"127.0.0.1:{port}", "pin": pin}
            for (name, port), pin in zip(self.ports.items(), PINS, strict=False)
        ]
        self.declare(peers)
        self._flags = ["--memcached", memcached.address, "--state-url", f"redis://{redis.address}/0"]

    def declare(self, peers: list[dict[str, Any]]) -> None:
        """Write the configuration file with these servers."""
        self._config.write_text(yaml.safe_dump({"upstreams": {"web": {"peers": peers}}}))

    @contextlib.contextmanager
    def controller(self, xds_port: int, *more: str, role: str = "leader") -> Iterator[Controller]:
        """Run a controller with an xDS port, and wait until it has its role."""
        flags = ["--config", str(self._config), "--xds-port", str(xds_port), "--lease-s", "0.6", *more]
        with controller(self._folder, *self._flags, *flags) as one:
            one.wait(role)
            yield one

    def by_port(self, figures: dict[str, Any]) -> dict[int, Any]:
        """Return figures by server in Envoy's form: by port."""
        return {self.ports[name]: figure for name, figure in figures.items()}


@pytest.fixture
def servers() -> Iterator[dict[str, Web]]:
    """Three servers."""
    with webs(*NAMES) as made:
        yield made


@pytest.fixture
def steelyard(memcached: Daemon, redis_server: Daemon, tmp_path: Path, servers: dict[str, Web]) -> Steelyard:
    """The declared servers; no controller runs yet."""
    return Steelyard(memcached, redis_server, tmp_path, servers)


def _change(one: Controller, peer: str, **changes: Any) -> None:
    headers = {"Content-Type": "application/merge-patch+json", **own_token()}
    url = f"{one.url}/v1/upstreams/web/peers/{peer}"
    LOCAL.patch(url, json=changes, headers=headers).raise_for_status()


def _overview(one: Controller) -> Any:
    return LOCAL.get(f"{one.url}/v1/upstreams/web").json()


def _until(look: Callable[[], Any], wanted: Any) -> None:
    wait_until(lambda: look() == wanted, lambda: f"{look()} in place of {wanted}")


WEIGHTS = {"server-1": 200, "server-2": 300, "server-3": 500}


def test_the_documented_file_follows_weights_and_states_and_reports(
    steelyard: Steelyard, tmp_path: Path
) -> None:
    xds = free_port()
    with steelyard.controller(xds) as one, envoy(tmp_path, documented(), [xds]) as edge:
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        shares = edge.requests(200)
        assert {name: shares[name] // 2 for name in NAMES} == pytest.approx(
            {"server-1": 20, "server-2": 30, "server-3": 50}, abs=2
        )

        before = edge.connections()
        _change(one, "server-1", pin=60)
        _until(edge.weights, steelyard.by_port({"server-1": 600, "server-2": 300, "server-3": 100}))
        edge.requests(50)
        assert edge.connections() == before

        _change(one, "server-1", state="drain")
        _change(one, "server-2", state="down")
        _until(edge.states, steelyard.by_port({"server-3": "HEALTHY"}))
        # One of three is left: fewer than Envoy's panic threshold.
        assert edge.requests(50) == {"server-3": 50}

        def completed() -> Any:
            edge.requests(5)
            rows = {peer["id"]: peer["completed_per_tick"] for peer in _overview(one)["peers"]}
            # The load of a tenth of a second; in a tick without a new report nothing is known.
            return rows["server-3"] and not rows["server-1"]

        wait_until(completed, lambda: str(_overview(one)))
        assert _overview(one)["load_balancers"].keys() == {"edge-1"}

        # A second server has the address of a draining one: Envoy has one endpoint for both, and it serves.
        address = {"address": f"127.0.0.1:{steelyard.ports['server-1']}"}
        url = f"{one.url}/v1/upstreams/web/peers/server-4"
        LOCAL.put(url, json=address, headers=own_token()).raise_for_status()
        _until(lambda: edge.states().get(steelyard.ports["server-1"]), "HEALTHY")
        # After its first check.
        wait_until(lambda: edge.requests(10)["server-1"], lambda: str(edge.endpoints()))


def test_a_server_that_a_person_has_taken_out_serves_nothing_even_if_no_other_one_is_well(
    steelyard: Steelyard, tmp_path: Path, servers: dict[str, Web]
) -> None:
    xds, document = free_port(), documented()
    web = cluster(document, "web")
    web["health_checks"][0] |= {"interval": "0.2s", "no_traffic_interval": "0.2s"}
    # Without it, Envoy keeps an endpoint that is left out while it passes the checks, unless it is UNHEALTHY.
    del web["ignore_health_on_host_removal"]
    with (
        steelyard.controller(xds) as one,
        envoy(tmp_path, document, [xds]) as edge,
        futures.ThreadPoolExecutor(LONG) as pool,
    ):
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        # Envoy's workers are told of a check's result within a second.
        wait_until(lambda: edge.requests(10).keys() == set(NAMES))
        running = [pool.submit(edge.request, "/long") for _ in range(LONG)]
        wait_until(lambda: sum(each.open for each in servers.values()) == LONG)
        assert servers["server-1"].open

        _change(one, "server-1", state="drain")
        _change(one, "server-2", state="down")
        _until(edge.states, steelyard.by_port({"server-3": "HEALTHY"}))
        servers["server-3"].is_sick = True
        _until(edge.unhealthy, {steelyard.ports["server-3"]})
        # A server that Envoy takes out serves if there is no other one, as behind nginx.
        assert edge.requests(60) == {"server-3": 60}
        _change(one, "server-3", state="drain")
        _until(edge.states, {})
        assert edge.requests(60) == {"503": 60}

        for each in servers.values():
            each.release()
        assert Counter(each.result() for each in running).keys() == set(NAMES), "a running request ends well"
        _change(one, "server-1", state="up")
        _until(edge.states, steelyard.by_port({"server-1": "HEALTHY"}))
        assert edge.requests(20) == {"server-1": 20}


def test_a_server_that_fails_requests_is_out_although_it_passes_the_checks(
    steelyard: Steelyard, tmp_path: Path, servers: dict[str, Web]
) -> None:
    xds, document = free_port(), documented()
    cluster(document, "web")["health_checks"][0] |= {"interval": "0.2s", "no_traffic_interval": "0.2s"}
    with steelyard.controller(xds), envoy(tmp_path, document, [xds]) as edge:
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        wait_until(lambda: edge.requests(10).keys() == set(NAMES))
        servers["server-1"].is_broken = True
        # consecutive_5xx
        assert edge.requests(100)["503"] == 5
        passed = edge.passed_checks()
        # All of them pass several times.
        wait_until(lambda: edge.passed_checks() >= passed + 4 * len(NAMES))
        assert edge.requests(50)["503"] == 0


def test_what_envoy_refuses_is_a_fault_in_its_own_words_until_it_is_mended(
    steelyard: Steelyard, tmp_path: Path
) -> None:
    xds = free_port()
    document = documented()
    # Envoy accepts no priorities for its own cluster.
    document["cluster_manager"]["local_cluster_name"] = "web"
    with steelyard.controller(xds) as one, envoy(tmp_path, document, [xds]) as edge:
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        _change(one, "server-3", state="backup")

        def degraded() -> Any:
            return [line for line in LOCAL.get(f"{one.url}/readyz").json()["degraded"] if "Envoy" in line]

        wait_until(degraded)
        assert re.fullmatch(r"Envoy: edge-1 refuses endpoints: .*non-zero priority.*web.*", degraded()[0])
        assert "steelyard_xds_refused_total 1.0" in LOCAL.get(f"{one.url}/metrics").text
        assert edge.requests(20)["server-3"], "it keeps what it had"
        _change(one, "server-3", state="drain")
        _until(lambda: edge.states().get(steelyard.ports["server-3"]), None)
        wait_until(lambda: not degraded(), lambda: str(degraded()))


def test_a_take_over_moves_no_weight_and_fails_no_request_and_without_controllers_envoy_goes_on(
    steelyard: Steelyard, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    with contextlib.ExitStack() as stack:
        leader = stack.enter_context(steelyard.controller(ports[0]))
        standby = stack.enter_context(steelyard.controller(ports[1], role="standby"))
        edge = stack.enter_context(envoy(tmp_path, documented(), ports))
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        leader.process.kill()
        while not standby.ready("leader"):
            assert edge.requests(5).keys() <= set(NAMES)
            assert edge.weights() == steelyard.by_port(WEIGHTS)
            time.sleep(0.02)
        _change(standby, "server-1", state="drain")
        _until(lambda: edge.states().get(steelyard.ports["server-1"]), None)
        edge.requests(20)
        # Reports go on, also from a controller that leads by now.
        wait_until(lambda: _overview(standby)["load_balancers"].get("edge-1") is not None)

        standby.process.kill()
        standby.process.wait()
        assert edge.requests(50).keys() == {"server-2", "server-3"}
        again = stack.enter_context(steelyard.controller(ports[0]))
        _change(again, "server-2", pin=60)
        _until(lambda: edge.weights().get(steelyard.ports["server-2"]), 600)
        assert edge.requests(50).keys() == {"server-2", "server-3"}


def test_a_standby_serves_the_leaders_tables_and_hands_reports_to_it(
    steelyard: Steelyard, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    with (
        steelyard.controller(ports[0]) as leader,
        steelyard.controller(ports[1], role="standby"),
        envoy(tmp_path, documented(), [ports[1]], "edge-7") as edge,
    ):
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        _change(leader, "server-1", pin=60)
        _until(edge.weights, steelyard.by_port({"server-1": 600, "server-2": 300, "server-3": 100}))
        edge.requests(20)
        wait_until(lambda: "edge-7" in _overview(leader)["load_balancers"])


def test_requests_are_credited_however_an_address_is_spelled(
    memcached: Daemon, redis_server: Daemon, tmp_path: Path
) -> None:
    low = next(port for port in range(6000, 9999) if not listens(port))
    servers = [Web("server-1", port=low), Web("server-2", host="::1"), Web("server-3")]
    typed = {
        "server-1": f"127.0.0.1:0{low}",
        "server-2": f"[0:0::0:1]:{servers[1].port}",
        "server-3": f"[::FFFF:127.0.0.1]:{servers[2].port}",
    }
    canonical = [f"127.0.0.1:{low}", f"[::1]:{servers[1].port}", f"127.0.0.1:{servers[2].port}"]
    steelyard, xds = Steelyard(memcached, redis_server, tmp_path, {}), free_port()
    steelyard.declare([{"id": name, "address": address} for name, address in typed.items()])
    try:
        with steelyard.controller(xds) as one, envoy(tmp_path, documented(), [xds]) as edge:
            wait_until(edge.weights)
            credited: set[str] = set()

            def all_credited() -> bool:
                edge.requests(10)
                rows = _overview(one)["peers"]
                credited.update(row["id"] for row in rows if row["completed_per_tick"])
                return credited == typed.keys()

            wait_until(all_credited, lambda: f"{credited} of {_overview(one)['peers']}")
            # Shown as typed, published in one spelling, and found by both.
            assert {row["id"]: row["address"] for row in _overview(one)["peers"]} == typed
            table = LOCAL.get(f"{one.url}/v1/upstreams/web/weights").json()
            assert [row["address"] for row in table["peers"]] == canonical
            for text in (typed["server-2"], canonical[1]):
                found = LOCAL.get(f"{one.url}/v1/upstreams/web", params={"search": text}).json()
                assert [row["id"] for row in found["peers"]] == ["server-2"]
    finally:
        for web in servers:
            web.stop()


def test_two_envoys_of_one_name_at_two_controllers_are_a_fault(steelyard: Steelyard, tmp_path: Path) -> None:
    ports = free_port(), free_port()
    folders = tmp_path / "one", tmp_path / "other"
    with contextlib.ExitStack() as stack:
        leader = stack.enter_context(steelyard.controller(ports[0]))
        standby = stack.enter_context(steelyard.controller(ports[1], role="standby"))
        edges = []
        for folder, port in zip(folders, ports, strict=True):
            folder.mkdir()
            edges.append(stack.enter_context(envoy(folder, documented(), [port])))
        for edge in edges:
            _until(edge.weights, steelyard.by_port(WEIGHTS))

        def degraded() -> list[list[str]]:
            for edge in edges:
                edge.requests(5)
            return [LOCAL.get(f"{one.url}/readyz").json()["degraded"] for one in (leader, standby)]

        wait_until(
            lambda: all("two programs report as edge-1" in str(each) for each in degraded()),
            lambda: str(degraded()),
        )


def _by_itself(api_type: str) -> Any:
    document = documented()
    source = document.pop("dynamic_resources")["ads_config"] | {"api_type": api_type}
    web = cluster(document, "web")
    web["eds_cluster_config"]["eds_config"] = {"resource_api_version": "V3", "api_config_source": source}
    return document


def _state_of_the_world() -> Any:
    document = documented()
    document["dynamic_resources"]["ads_config"]["api_type"] = "GRPC"
    return document


@pytest.mark.parametrize(
    "document",
    [_state_of_the_world(), _by_itself("GRPC"), _by_itself("DELTA_GRPC")],
    ids=["ads", "eds", "delta"],
)
def test_every_variant_follows_also_an_upstream_that_is_declared_later(
    steelyard: Steelyard, tmp_path: Path, document: dict[str, Any]
) -> None:
    xds = free_port()
    web = cluster(document, "web")
    later = {**web, "name": "later", "eds_cluster_config": {**web["eds_cluster_config"]}}
    document["static_resources"]["clusters"].append(later)
    later["eds_cluster_config"]["eds_config"] = {
        **web["eds_cluster_config"]["eds_config"],
        "initial_fetch_timeout": "0.5s",
    }
    with steelyard.controller(xds) as one, envoy(tmp_path, document, [xds]) as edge:
        _until(edge.weights, steelyard.by_port(WEIGHTS))
        assert edge.weights("later") == {}
        peer = {"address": f"127.0.0.1:{steelyard.ports['server-1']}"}
        url = f"{one.url}/v1/upstreams/later"
        LOCAL.put(url, json={"peers": [{"id": "only", **peer}]}, headers=own_token()).raise_for_status()
        wait_until(lambda: edge.weights("later"))
        _change(one, "server-2", pin=60)
        _until(edge.weights, steelyard.by_port({"server-1": 200, "server-2": 600, "server-3": 200}))


def test_behind_another_control_plane_a_clusters_endpoints_come_from_here(
    steelyard: Steelyard, tmp_path: Path
) -> None:
    gateway, policy = documented("kind: EnvoyPatchPolicy")
    (patch,) = policy["spec"]["jsonPatches"]
    document = documented()
    # Their own, as they would send it.
    theirs = {**cluster(document, "web"), "name": patch["name"], "@type": patch["type"]}
    theirs[patch["operation"]["path"].removeprefix("/")] = patch["operation"]["value"]
    file = tmp_path / "clusters.yaml"
    file.write_text(yaml.safe_dump({"resources": [theirs]}))
    document["dynamic_resources"] = {
        "cds_config": {"resource_api_version": "V3", "path_config_source": {"path": str(file)}}
    }
    host = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    host["route_config"]["validate_clusters"] = False
    host["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["cluster"] = patch["name"]
    manager, ours = gateway["spec"]["bootstrap"]["jsonPatches"]
    assert (manager["path"], ours["path"]) == ("/cluster_manager", "/static_resources/clusters/-")
    document["cluster_manager"], document["static_resources"]["clusters"] = manager["value"], [ours["value"]]

    xds = free_port()
    with steelyard.controller(xds) as one, envoy(tmp_path, document, [xds], "gateway-1") as edge:
        _until(lambda: edge.weights(patch["name"]), steelyard.by_port(WEIGHTS))
        edge.requests(10)
        wait_until(lambda: "gateway-1" in _overview(one)["load_balancers"])


def test_with_certificates_envoy_asks_as_without(steelyard: Steelyard, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    names = ["controller.example.org", "envoy"]
    server, own = (str(authority.file(name)) for name in names)
    changes = [("envoy.pem", own), ("envoy.key", own), ("controllers-ca.pem", str(authority.path))]
    document = documented()
    cluster(document, "steelyard").update(documented("UpstreamTlsContext", changes))
    flags = ["--xds-host", "0.0.0.0", "--xds-cert-file", server]  # noqa: S104
    flags += ["--xds-cert-key-file", server, "--xds-client-ca-file", str(authority.path)]
    xds = free_port()
    with steelyard.controller(xds, *flags), envoy(tmp_path, document, [xds]) as edge:
        _until(edge.weights, steelyard.by_port(WEIGHTS))


def test_latency_that_servers_tell_is_reported(
    memcached: Daemon, redis_server: Daemon, tmp_path: Path
) -> None:
    xds, document = free_port(), documented()
    cluster(document, "web")["lrs_report_endpoint_metrics"] = ["named_metrics.latency_ms"]
    tells = "endpoint-load-metrics: TEXT named_metrics.latency_ms=12.5\r\n"
    with webs(*NAMES, headers=tells) as servers:
        steelyard = Steelyard(memcached, redis_server, tmp_path, servers)
        with steelyard.controller(xds) as one, envoy(tmp_path, document, [xds]) as edge:
            _until(edge.weights, steelyard.by_port(WEIGHTS))

            def latencies() -> set[float | None]:
                edge.requests(10)
                return {peer["latency_ms"] for peer in _overview(one)["peers"]}

            wait_until(lambda: latencies() == {12.5}, lambda: str(latencies()))
