"""Discovery in a controller that leads: Kubernetes' objects, a person's changes, and the API's answers."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from steelyard_controller.discovery.api_server import ApiServer
from steelyard_controller.discovery.discovery import Discovery
from steelyard_controller.discovery.watch import Timing
from steelyard_controller.store.interface import Store
from steelyard_controller.store.memory_store import MemoryStore

from testing.waiting import PATIENCE_S, wait_until

from ..api.serving import service_of, serving
from .recorded_api import RecordedApi, endpoint_slice, service

pytestmark = pytest.mark.integration

TIMING = Timing(
    watch_s=PATIENCE_S, late_s=PATIENCE_S, page_s=PATIENCE_S, first_pause_s=0.05, longest_pause_s=0.2
)
ENDING = {"ready": False, "serving": True, "terminating": True}
OVER = {"ready": False, "serving": False, "terminating": True}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RecordedApi]:
    """A healthy server without any objects."""
    made = RecordedApi(tmp_path)
    yield made
    made.stop()


@contextlib.contextmanager
def discovering(
    api: RecordedApi, *namespaces: str, store: Store | None = None, id: str = "one", tick_s: float = 0.05
) -> Iterator[TestClient]:
    """Yield a client of a controller that leads and watches."""
    server = ApiServer({"KUBECONFIG": str(api.kubeconfig)})
    running = service_of(
        store=store,
        id=id,
        discovery_of=lambda faults: Discovery(
            server, namespaces=namespaces, faults=faults, tick_s=tick_s, timing=TIMING
        ),
    )
    with serving(service=running) as client:
        yield client


def table(client: TestClient, upstream: str = "shop") -> dict[str, tuple[str, str]] | None:
    """Return address and state by server from the weight table; None before there is one."""
    answer = client.get(f"/v1/upstreams/{upstream}")
    if answer.status_code != 200:
        return None
    return {row["id"]: (row["address"], row["state"]) for row in answer.json()["peers"]}


def peers(client: TestClient, upstream: str = "shop") -> dict[str, dict[str, Any]]:
    """Return the servers as declared."""
    answer = client.get(f"/v1/upstreams/{upstream}/peers")
    return {peer["id"]: peer for peer in answer.json()["peers"]} if answer.status_code == 200 else {}


def degraded(client: TestClient) -> str:
    """Return the faults on /readyz, without those of the Memcached that these tests do without."""
    lines = client.get("/readyz").json()["degraded"]
    return "\n".join(line for line in lines if not line.startswith("memcached"))


def shop(**annotations: str) -> dict[str, Any]:
    return service("shop", **annotations)


def of_shop(*pods: str, **more: Any) -> dict[str, Any]:
    return endpoint_slice(*pods, **({"service": "shop"} | more))


A, B = ("10.0.0.1:8080", "up"), ("10.0.0.2:8080", "up")


def test_pods_come_turn_unready_terminate_and_go(api: RecordedApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with discovering(api) as client:
        api.put(shop(), of_shop("a=10.0.0.1"))
        wait_until(lambda: table(client) == {"a": A})
        api.put(of_shop("b=10.0.0.2", name="shop-2"))
        wait_until(lambda: table(client) == {"a": A, "b": B})
        api.put(of_shop("b=10.0.0.2", name="shop-2", ready=False))
        wait_until(lambda: table(client) == {"a": A, "b": (B[0], "down")})
        assert client.get("/v1/upstreams/shop/peers/b").json()["live"]["pod"] == "unready"
        assert peers(client)["b"]["state"] == "up"  # A person's state, which no pod has.
        api.put(of_shop("b=10.0.0.2", name="shop-2"))
        wait_until(lambda: table(client) == {"a": A, "b": B})
        api.put(of_shop("b=10.0.0.2", name="shop-2", **ENDING))
        wait_until(lambda: table(client) == {"a": A, "b": (B[0], "drain")})
        api.put(of_shop("b=10.0.0.2", name="shop-2", **OVER))
        wait_until(lambda: table(client) == {"a": A})
        api.put(of_shop())  # Scaled to none: the slices are there, without endpoints.
        wait_until(lambda: peers(client) == {})
        assert degraded(client) == ""
        entries = client.get("/v1/audit?upstream=shop").json()["entries"]
        assert {(each["who"], each["kind"]) for each in entries} == {("Service shop/shop", "kubernetes")}
        assert [
            each["changes"] for each in entries if each["what"].startswith("b: pod ready -> unready")
        ] == [[{"field": "pods.b", "before": "ready", "after": "unready"}]]
    said = [vars(record) for record in caplog.records if getattr(record, "event", None) == "declared"]
    assert {each["by"] for each in said} == {"Service shop/shop"}
    assert [each["message"] for each in said if "pod" in each["message"]] == [
        "shop: b: pod ready -> unready", "shop: b: pod unready -> ready", "shop: b: pod ready -> terminating",
    ]  # fmt: skip


def test_a_person_and_kubernetes_each_keep_what_they_declare(api: RecordedApi) -> None:
    api.put(shop(), of_shop("a=10.0.0.1", "b=10.0.0.2"))
    with discovering(api) as client:
        wait_until(lambda: table(client) == {"a": A, "b": B})
        assert (
            client.patch("/v1/upstreams/shop/peers/b", json={"state": "drain", "pin": 20}).status_code == 200
        )
        api.put(of_shop("a=10.0.0.1", "b=10.0.0.2", ready=False))
        wait_until(lambda: (table(client) or {})["a"][1] == "down")
        assert (table(client) or {})["b"][1] == "drain"
        api.put(of_shop("a=10.0.0.1", "b=10.0.0.2"))
        wait_until(lambda: (table(client) or {})["a"][1] == "up")
        assert peers(client)["b"] | {"baseline": None} == {
            "id": "b", "address": B[0], "state": "drain", "pin": 20, "baseline": None,
        }  # fmt: skip
        zoned = of_shop("a=10.0.0.1", "b=10.0.0.2")
        zoned["endpoints"][0]["zone"] = "eu-1a"
        api.put(zoned)
        wait_until(lambda: peers(client)["a"].get("zone") == "eu-1a")
        assert (
            client.put("/v1/upstreams/shop/peers/a", json={"address": A[0], "baseline": 2}).status_code == 200
        )
        assert (peers(client)["a"]["baseline"], peers(client)["a"]["zone"]) == (2, "eu-1a")
        # A document without the pods, from a person unaware of them.
        document = {"law": "static", "peers": [{"id": "vm", "address": "192.0.2.1:80"}]}
        changed = client.put("/v1/upstreams/shop", json=document)
        assert [peer["id"] for peer in changed.json()["peers"]] == ["vm", "a", "b"]
        api.put(of_shop("b=10.0.0.2"))
        wait_until(lambda: set(peers(client)) == {"vm", "b"})
        assert client.get("/v1/upstreams/shop/declaration").json()["law"] == "static"
        for answer in (
            client.delete("/v1/upstreams/shop/peers/b"),
            client.patch("/v1/upstreams/shop/peers/b", json={"address": "10.9.9.9:80"}),
            client.patch("/v1/upstreams/shop/peers/b", json={"zone": "eu-1b"}),
            client.put("/v1/upstreams/shop/peers/b", json={"address": "10.9.9.9:80"}),
        ):
            assert answer.status_code == 409
            assert "a pod of the Kubernetes Service shop/shop" in answer.text
        refused = client.delete("/v1/upstreams/shop")
        assert refused.status_code == 409
        assert "remove its annotation steelyard/upstream" in refused.text
        assert peers(client)["b"]["address"] == B[0]


def test_a_service_that_goes_leaves_its_servers_and_says_so(api: RecordedApi) -> None:
    api.put(shop(), of_shop("a=10.0.0.1", "b=10.0.0.2"))
    with discovering(api) as client:
        wait_until(lambda: table(client) == {"a": A, "b": B})
        api.delete(shop())
        api.delete(of_shop())
        wait_until(
            lambda: (
                "upstream shop: no Service declares it any more (the last was shop/shop)" in degraded(client)
            )
        )
        assert table(client) == {"a": A, "b": B}
        # It is back, with other pods.
        api.put(shop(), of_shop("b=10.0.0.2"))
        wait_until(lambda: table(client) == {"b": B} and degraded(client) == "")
        # The annotation goes, and a person decides.
        plain = shop()
        del plain["metadata"]["annotations"]
        api.put(plain)
        wait_until(lambda: "no Service declares it" in degraded(client))
        assert client.delete("/v1/upstreams/shop/peers/b").status_code == 204
        assert client.delete("/v1/upstreams/shop").status_code == 204
        wait_until(lambda: degraded(client) == "")


def test_mistakes_in_a_service_empty_nothing(api: RecordedApi) -> None:
    api.put(shop(), of_shop("a=10.0.0.1"))
    with discovering(api) as client:
        wait_until(lambda: table(client) == {"a": A})
        api.put(shop(**{"steelyard/port": "htpp"}))
        wait_until(
            lambda: "Service shop/shop: steelyard/port: 'htpp' is none of its ports" in degraded(client)
        )
        api.put(shop())
        wait_until(lambda: degraded(client) == "")
        api.delete(of_shop())
        wait_until(lambda: "it has no EndpointSlice" in degraded(client))
        other_port = of_shop("a=10.0.0.1", "b=10.0.0.2")
        other_port["ports"][0]["name"] = "metrics"
        api.put(other_port)
        wait_until(lambda: "a, b: no TCP port http there" in degraded(client))
        assert table(client) == {"a": A}
        api.put(of_shop("b=10.0.0.2"))
        wait_until(lambda: table(client) == {"b": B} and degraded(client) == "")


def test_a_rolling_update_of_hundreds_of_pods_is_few_revisions(api: RecordedApi) -> None:
    api.put(shop(), *(of_shop(f"a{n}=10.0.1.{n % 250}", name=f"shop-{n}") for n in range(300)))
    tick_s = 0.3
    with discovering(api, tick_s=tick_s) as client:
        wait_until(lambda: len(peers(client)) == 300)
        began_s, before = time.monotonic(), client.get("/v1/upstreams/shop/declaration").headers["etag"]
        for n in range(300):
            api.put(of_shop(f"b{n}=10.0.2.{n % 250}", name=f"shop-{n}"))
        wait_until(lambda: set(peers(client)) == {f"b{n}" for n in range(300)})
        after = client.get("/v1/upstreams/shop/declaration").headers["etag"]
        ticks = (time.monotonic() - began_s) / tick_s
        assert int(after.strip('"')) - int(before.strip('"')) <= ticks + 2


def test_a_namespace_without_rights_is_said_and_the_others_go_on(api: RecordedApi) -> None:
    api.forbidden = {"dark"}
    api.put(shop(), of_shop("a=10.0.0.1"))
    with discovering(api, "shop", "dark") as client:
        wait_until(lambda: table(client) == {"a": A})
        wait_until(
            lambda: "Kubernetes services in namespace dark: no right to list services" in degraded(client)
        )
        assert "Role and RoleBinding in dark" in degraded(client)
        metrics = client.get("/metrics").text
        assert 'steelyard_kubernetes_fault{namespace="dark",resource="services"} 1.0' in metrics
        assert 'steelyard_kubernetes_fault{namespace="shop",resource="services"} 0.0' in metrics
        assert 'steelyard_kubernetes_word_age_seconds{namespace="shop",resource="endpointslices"}' in metrics
        assert 'steelyard_kubernetes_word_age_seconds{namespace="dark"' not in metrics
        api.forbidden = set()
        wait_until(lambda: degraded(client) == "")


def test_what_a_namespace_declared_is_not_anothers_while_that_cannot_be_read(api: RecordedApi) -> None:
    store = MemoryStore()
    mine = service("shop", "dark")
    api.put(mine, of_shop("a=10.0.0.1", namespace="dark"))
    with discovering(api, "shop", "dark", store=store) as client:
        wait_until(lambda: table(client) == {"a": A})
    api.forbidden = {"dark"}
    young = shop()
    young["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z"
    api.put(young, of_shop("b=10.0.0.2"), service("more"), endpoint_slice("c=10.0.0.3", service="more"))
    with discovering(api, "shop", "dark", store=store) as client:
        wait_until(lambda: table(client, "more") == {"c": ("10.0.0.3:8080", "up")})
        assert table(client) == {"a": A}
        assert client.delete("/v1/upstreams/shop").status_code == 409
        api.forbidden = set()
        wait_until(
            lambda: "the upstream shop belongs to dark/shop, the first to claim it" in degraded(client)
        )
        assert table(client) == {"a": A}


def test_an_api_server_that_goes_leaves_everything_and_is_named(api: RecordedApi) -> None:
    store = MemoryStore()
    api.put(shop(), of_shop("a=10.0.0.1"))
    with discovering(api, store=store) as client:
        wait_until(lambda: table(client) == {"a": A})
        api.stop()
        wait_until(
            lambda: (
                "Kubernetes endpointslices in all namespaces: the API server is unreachable"
                in degraded(client)
            )
        )
        assert table(client) == {"a": A}
    with discovering(api, store=store) as client:  # Nor does a controller that never knew it.
        wait_until(
            lambda: "Kubernetes services in all namespaces: the API server is unreachable" in degraded(client)
        )
        assert table(client) == {"a": A}


def test_servers_of_the_file_stay_the_files(api: RecordedApi) -> None:
    api.put(service("web"), endpoint_slice("server-1=10.0.0.9", "a=10.0.0.1", service="web"))
    with discovering(api) as client:
        wait_until(lambda: "a" in (table(client, "web") or {}))
        assert (table(client, "web") or {})["server-1"] == ("10.0.0.11:80", "up")
        wait_until(lambda: "upstream web: the configuration file declares server-1" in degraded(client))


def test_the_history_and_the_events_have_what_kubernetes_changed(api: RecordedApi) -> None:
    api.put(shop(), of_shop("a=10.0.0.1", "b=10.0.0.2"))
    with discovering(api) as client:
        wait_until(lambda: table(client) == {"a": A, "b": B})
        api.put(of_shop("a=10.0.0.1", "b=10.0.0.2", ready=False))
        wait_until(lambda: {state for _, state in (table(client) or {}).values()} == {"down"})
        wait_until(
            lambda: (
                json.loads(client.get("/v1/upstreams/shop/history").text)["moments"][-1]["state"]
                == ["down", "down"]
            )
        )
