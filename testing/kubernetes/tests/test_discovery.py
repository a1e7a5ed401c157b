"""Discovery on the real API: a controller that may only list and watch two kinds of objects.

With RECORD=controller/tests/discovery/recordings/kubernetes.json it records the answers for other tests.
"""

import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from steelyard_controller.discovery.api_server import ACCOUNT

from openresty.tests.rig import Rig
from testing.daemons import free_port
from testing.waiting import PATIENCE_S

from .kube_api import KubeApi, wait_until

pytestmark = pytest.mark.kubernetes

TOKEN = "admin-token-of-these-tests"  # noqa: S105
RECORDED = json.loads(Path("controller/tests/discovery/recordings/kubernetes.json").read_text())
NO_MEMCACHED = "127.0.0.1:1"
ENDING: dict[str, Any] = {"ready": False, "serving": True, "terminating": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A controller's way to the API: its environment, and the prefix of its command."""

    environment: dict[str, str]
    run_by: tuple[str, ...] = ()


@dataclass
class Shop:
    """A namespace with a Service of pods, and the ServiceAccount of docs/guides/kubernetes.md."""

    api: KubeApi
    namespace: str

    @property
    def account(self) -> str:
        return f"system:serviceaccount:{self.namespace}:steelyard-controller"

    def apply(self, *documents: dict[str, Any]) -> None:
        """Write objects."""
        self.api.kubectl(
            "apply", "--namespace", self.namespace, "--filename=-", given=yaml.safe_dump_all(documents)
        )

    def grant(self) -> None:
        """Give the rights from the docs, and wait until the API server knows them."""
        guide = Path("docs/guides/kubernetes.md").read_text()
        text = next(
            block
            for block in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
            if "kind: RoleBinding" in block
        )
        for name in ("shop", "steelyard"):
            text = text.replace(f"namespace: {name}", f"namespace: {self.namespace}")
        self.apply(*yaml.safe_load_all(text))
        for resource in ("services", "endpointslices.discovery.k8s.io"):
            wait_until(
                lambda resource=resource: self.api.may(self.account, "watch", resource, self.namespace),  # type: ignore[misc]
                f"the right to watch {resource} is known",
            )

    def from_outside(self, folder: Path) -> Access:
        """Return the access from any machine: a kubeconfig of the ServiceAccount."""
        document = json.loads(self.api.kubeconfig.read_text())
        token = self.api.service_account_token(self.namespace, "steelyard-controller")
        document["users"] = [{"name": "administrator", "user": {"token": token}}]
        path = folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return Access(environment={"KUBECONFIG": str(path)})

    def in_pod(self, folder: Path) -> Access:
        """Return the access from a pod: the kubelet's variables and files, on a /run of its own."""
        account = folder / "account"
        account.mkdir()
        token = self.api.service_account_token(self.namespace, "steelyard-controller")
        (account / "token").write_text(token)
        (account / "ca.crt").write_bytes(self.api.ca.read_bytes())
        place = (
            'mount -t tmpfs tmpfs /run && mkdir -p "$2" && cp "$1"/* "$2" && shift 2 && exec "$@"',
            "in-pod",
            str(account),
            str(ACCOUNT),
        )
        url = urlsplit(self.api.url)
        return Access(
            environment={
                "KUBERNETES_SERVICE_HOST": str(url.hostname),
                "KUBERNETES_SERVICE_PORT": str(url.port),
            },
            run_by=("unshare", "--mount", "sh", "-c", *place),
        )

    def service(self, **annotations: str) -> None:
        """Write the Service `web`."""
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "annotations": {"steelyard/upstream": "web"} | annotations},
                "spec": {
                    "selector": {"app": "web"},
                    "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
                },
            }
        )

    def pods(self, pods: dict[str, str], *, name: str = "web-1", port: int = 8080, **said: Any) -> None:
        """Write an EndpointSlice (address by pod), in place of Kubernetes' controller."""
        conditions = {"ready": True, "serving": True, "terminating": False} | said
        self.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4",
                "endpoints": [
                    {
                        "addresses": [address],
                        "conditions": conditions,
                        "targetRef": {"kind": "Pod", "name": pod, "namespace": self.namespace},
                    }
                    for pod, address in pods.items()
                ],
                "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            }
        )


@pytest.fixture
def shop(kube_api: KubeApi) -> Shop:
    """A namespace with a ServiceAccount without rights."""
    made = Shop(kube_api, kube_api.new_namespace())
    kube_api.kubectl("create", "serviceaccount", "steelyard-controller", "--namespace", made.namespace)
    return made


class Controller:
    """A controller's API."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        """Return status and document; (0, None) without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except OSError:
            return 0, None
        finally:
            connection.close()

    def table(self) -> dict[str, tuple[str, str]] | None:
        """Return address and state of each server of `web` in the weight table."""
        status, document = self.ask("GET", "/v1/upstreams/web")
        if status != 200:
            return None
        return {row["id"]: (row["address"], row["state"]) for row in document["peers"]}

    def degraded(self) -> str:
        """Return the degraded parts, except Memcached."""
        lines = (self.ask("GET", "/readyz")[1] or {}).get("degraded", [])
        return "\n".join(line for line in lines if not line.startswith("memcached"))


@contextlib.contextmanager
def controller(
    folder: Path, access: Access, namespaces: str, *, memcached: str = NO_MEMCACHED
) -> Iterator[Controller]:
    """Yield a watching controller; it must end in order."""
    port, log = free_port(), folder / "controller.log"
    mine = ("STEELYARD_", "KUBE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    environment |= access.environment | {
        "STEELYARD_KUBERNETES": namespaces,
        "STEELYARD_ADMIN_TOKEN": TOKEN,
    }
    flags = [f"--api-port={port}", "--state-url=memory://", "--tick-s=0.2", f"--memcached={memcached}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*access.run_by, sys.executable, "-m", "steelyard_controller", *flags],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        one = Controller(port)
        wait_until(lambda: one.ask("GET", "/readyz")[0] == 200, f"the controller leads, see {log}")
        yield one
    finally:
        process.terminate()
        status = process.wait(PATIENCE_S)
    assert status == 0, log.read_text()


def test_pods_come_turn_unready_terminate_and_go(shop: Shop, tmp_path: Path) -> None:
    shop.grant()
    shop.service()
    shop.pods({"a": "192.0.2.1"})
    a, b = ("192.0.2.1:8080", "up"), "192.0.2.2:8080"
    with controller(tmp_path, shop.from_outside(tmp_path), shop.namespace) as one:
        wait_until(lambda: one.table() == {"a": a}, "the first pod is there")
        shop.pods({"b": "192.0.2.2"}, name="web-2")
        wait_until(lambda: one.table() == {"a": a, "b": (b, "up")}, "another came")
        assert one.ask("PATCH", "/v1/upstreams/web/peers/a", {"state": "drain"})[0] == 200
        shop.pods({"b": "192.0.2.2"}, name="web-2", ready=False, serving=False)
        wait_until(lambda: one.table() == {"a": (a[0], "drain"), "b": (b, "down")}, "it is not ready")
        shop.pods({"a": "192.0.2.1"}, ready=False, serving=False)
        shop.pods({"a": "192.0.2.1"})
        shop.pods({"b": "192.0.2.2"}, name="web-2")
        wait_until(lambda: one.table() == {"a": (a[0], "drain"), "b": (b, "up")}, "it is ready again")
        assert one.ask("PATCH", "/v1/upstreams/web/peers/a", {"state": None})[0] == 200
        shop.pods({"b": "192.0.2.2"}, name="web-2", **ENDING)
        wait_until(lambda: one.table() == {"a": a, "b": (b, "drain")}, "it is terminating")
        shop.pods({}, name="web-2")
        wait_until(lambda: one.table() == {"a": a}, "it is gone")
        shop.api.kubectl("delete", "service,endpointslice", "--all", "--namespace", shop.namespace)
        wait_until(lambda: "no Service declares it any more" in one.degraded(), "the Service is missed")
        assert one.table() == {"a": a}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process a /run of its own")
def test_in_a_pod_it_signs_on_as_its_service_account(shop: Shop, tmp_path: Path) -> None:
    shop.service()
    shop.pods({"a": "192.0.2.1"})
    with controller(tmp_path, shop.in_pod(tmp_path), shop.namespace) as one:
        said = f'User "{shop.account}" cannot list resource "services"'
        wait_until(lambda: said in one.degraded(), "it is known by name, and may nothing yet")
        shop.grant()
        wait_until(lambda: one.table() == {"a": ("192.0.2.1:8080", "up")}, "what is there is declared")
        with shop.api.away():
            wait_until(lambda: "the API server is unreachable" in one.degraded(), "the fault is said")
        wait_until(lambda: one.degraded() == "", "no fault is left")


def test_without_rights_it_names_the_namespace_and_goes_on_once_they_are_there(
    shop: Shop, tmp_path: Path
) -> None:
    shop.service()
    shop.pods({"a": "192.0.2.1"})
    with controller(tmp_path, shop.from_outside(tmp_path), f"{shop.namespace},default") as one:
        said = f"no right to list services in namespace {shop.namespace}"
        wait_until(lambda: said in one.degraded(), "the fault is said")
        assert f'User "{shop.account}" cannot list resource "services"' in one.degraded()
        assert f"by a Role and RoleBinding in {shop.namespace}" in one.degraded()
        shop.grant()
        wait_until(lambda: one.table() == {"a": ("192.0.2.1:8080", "up")}, "what is there is declared")
        wait_until(lambda: said not in one.degraded(), "the fault has ended")
        assert "in namespace default: no right to list" in one.degraded()


def test_the_documented_role_may_nothing_else(shop: Shop) -> None:
    shop.grant()
    for verb, resource in (
        ("get", "secrets"),
        ("list", "secrets"),
        ("list", "pods"),
        ("create", "services"),
        ("patch", "services"),
        ("delete", "endpointslices.discovery.k8s.io"),
    ):
        assert not shop.api.may(shop.account, verb, resource, shop.namespace)
    assert not shop.api.may(shop.account, "list", "services", "default")


@pytest.mark.parametrize("way", ["away", "frozen"])
def test_an_api_server_that_goes_and_comes_back_empties_nothing(shop: Shop, tmp_path: Path, way: str) -> None:
    shop.grant()
    shop.service()
    shop.pods({"a": "192.0.2.1"})
    with controller(tmp_path, shop.from_outside(tmp_path), shop.namespace) as one:
        wait_until(lambda: one.table() == {"a": ("192.0.2.1:8080", "up")}, "the pod is there")
        with shop.api.away() if way == "away" else shop.api.frozen():
            if way == "away":
                wait_until(lambda: "the API server is unreachable" in one.degraded(), "the fault is said")
            assert one.table() == {"a": ("192.0.2.1:8080", "up")}
        shop.pods({"b": "192.0.2.2"})
        wait_until(lambda: one.table() == {"b": ("192.0.2.2:8080", "up")}, "what came after it is known")
        wait_until(lambda: one.degraded() == "", "no fault is left")


def trimmed(document: Any) -> Any:
    """Return a document without its two traces of kubectl."""
    if isinstance(document, dict):
        dropped = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
        return {name: trimmed(value) for name, value in document.items() if name not in dropped}
    return [trimmed(each) for each in document] if isinstance(document, list) else document


def shape(document: Any) -> Any:
    """Return the members and the types of a document."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return [shape(each) for each in document]
    return type(document).__name__


def test_the_recorded_answers_are_those_of_this_server(shop: Shop) -> None:
    shop.grant()
    shop.service()
    shop.pods({"a": "192.0.2.1"})
    token = shop.api.service_account_token(shop.namespace, "steelyard-controller")
    base = {
        "services": f"/api/v1/namespaces/{shop.namespace}/services",
        "endpointslices": f"/apis/discovery.k8s.io/v1/namespaces/{shop.namespace}/endpointslices",
    }

    def asked(path: str, bearer: str = token) -> Any:
        return trimmed(last_document(shop.api, path, bearer))

    # The bookmark follows the API reference: this server sends none within a few seconds without a change.
    recorded: dict[str, Any] = {"list": {}, "bookmark": RECORDED["bookmark"], "statuses": {}}
    for plural, path in base.items():
        listed = asked(path)
        recorded["list"][plural] = listed | {"items": []}
        (item,) = listed["items"]
        recorded["service" if plural == "services" else "endpointslice"] = item | {
            "apiVersion": listed["apiVersion"],
            "kind": listed["kind"].removesuffix("List"),
        }
    recorded["statuses"]["401"] = asked(base["services"], "nobody")
    recorded["statuses"]["403"] = asked("/api/v1/namespaces/default/services")
    with shop.api.away():
        pass  # it forgets the earlier history
    recorded["statuses"]["410"] = asked(f"{base['services']}?watch=1&resourceVersion=1")["object"]
    if target := os.environ.get("RECORD"):
        Path(target).write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    assert shape(recorded) == shape(RECORDED)


def last_document(api: KubeApi, path: str, token: str) -> Any:
    """Return the last document of an answer with any status."""
    try:
        with api.open(path, token) as answer:
            lines = answer.read().splitlines()
    except urllib.error.HTTPError as refusal:
        with refusal:
            lines = refusal.read().splitlines()
    return json.loads(lines[-1])


class _Pod(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("X-Backend", str(self.connection.getsockname()[0]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def pods_at(addresses: list[str], port: int) -> Iterator[None]:
    """Serve at addresses that the API server accepts for pods: it refuses loopback."""
    with contextlib.ExitStack() as stack:
        for address in addresses:
            subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
            stack.callback(subprocess.run, ["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)
            server = ThreadingHTTPServer((address, port), _Pod)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            stack.callback(_end, server, thread)
        yield


def _end(server: ThreadingHTTPServer, thread: threading.Thread) -> None:
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A Memcached, and on demand an nginx."""
    made = Rig(tmp_path)
    yield made
    made.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give this machine the addresses of pods")
def test_nginx_sends_requests_to_the_pods_that_are_ready(shop: Shop, rig: Rig, tmp_path: Path) -> None:
    net = f"10.{random.randint(64, 126)}.{random.randint(0, 255)}"
    a, b, c = (f"{net}.{n}" for n in (1, 2, 3))
    port = free_port()
    shop.grant()
    shop.service()
    shop.pods({"pod-a": a, "pod-b": b}, port=port)
    where = f"127.0.0.1:{rig.memcached.port}"
    with (
        pods_at([a, b, c], port),
        controller(tmp_path, shop.from_outside(tmp_path), shop.namespace, memcached=where) as one,
    ):
        edge = rig.edge()

        def answered_by(*pods: str) -> Callable[[], bool]:
            return lambda: {edge.get().server for _ in range(20)} == set(pods)

        wait_until(answered_by(a, b), "both pods answer")
        shop.pods({"pod-a": a}, port=port)
        shop.pods({"pod-b": b}, name="web-2", port=port, ready=False, serving=False)
        shop.pods({"pod-c": c}, name="web-3", port=port)
        wait_until(answered_by(a, c), "the one that is not ready does not, the new one does")
        shop.pods({"pod-a": a}, port=port, **ENDING)
        wait_until(answered_by(c), "nor does the one that is terminating")
        with shop.api.away():
            wait_until(lambda: "the API server is unreachable" in one.degraded(), "the fault is said")
            assert answered_by(c)()
