"""A real Kubernetes API for tests: kube-apiserver on Debian's etcd, with RBAC, on free ports of 127.0.0.1.

Its tests are those in testing/kubernetes/tests, with the marker `kubernetes`; `make kubernetes-test` builds
the server (scripts/kubernetes-api) and runs them. The fixture `kube_api` is one server for all: a test
makes its objects in a `new_namespace()`, and sees the server gone in a block, `with kube_api.away():`.

Behind the API there is no controller, no scheduler and no kubelet. A test writes their objects itself, such
as EndpointSlices and the status of a pod.
"""

import http.client
import json
import os
import secrets
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from testing import waiting
from testing.daemons import Daemon, free_port

# The server needs some ten seconds of CPU time to start; a busy machine takes longer.
PATIENCE_S = 240.0

wait_until = partial(waiting.wait_until, patience_s=PATIENCE_S)

_RUN = Path(__file__).parents[3] / ".run"
CLIENTS = _RUN / "kubernetes-clients"  # scripts/kubernetes-clients
SERVERS = _RUN / "kubernetes-api"  # scripts/kubernetes-api


class KubeApi:
    """The server, how to reach it, and its administrator's kubectl and helm."""

    def __init__(self, folder: Path) -> None:
        """Start etcd and the server; `folder` keeps their data, keys and logs."""
        self._folder = folder
        etcd_port, port = free_port(), free_port()
        self.url = f"https://127.0.0.1:{port}"
        self.ca = folder / "apiserver.crt"  # made by the server
        self.kubeconfig = folder / "kubeconfig"
        self._token = secrets.token_hex()
        self._write_keys()
        self._etcd = Daemon(_etcd(folder, etcd_port), etcd_port, folder / "etcd.log")
        self._server = Daemon(_apiserver(folder, port, etcd_port), port, folder / "kube-apiserver.log")
        self._etcd.start()
        try:
            self._start_server()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill the server and etcd."""
        self._server.kill()
        self._etcd.kill()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Kill the server; start it on the same port, with the same data, when the block ends."""
        self._server.kill()
        try:
            yield
        finally:
            self._start_server()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the server (SIGSTOP): it keeps its connections and answers nothing until the block ends."""
        process = self._server.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            status = Path(f"/proc/{process.pid}/stat")
            wait_until(
                lambda: status.read_text().rpartition(")")[2].split()[0] == "T", "the server is stopped"
            )
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def open(self, path: str, token: str, *, timeout_s: float = PATIENCE_S) -> http.client.HTTPResponse:
        """GET `path` as the bearer of `token`; raise urllib.error.HTTPError if the server refuses."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
        context = ssl.create_default_context(cafile=self.ca)
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout_s, context=context)  # noqa: S310
        return answer

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as the administrator, on the input `given`; return its output or raise its message."""
        return self._run("kubectl", arguments, given)

    def helm(self, *arguments: str) -> str:
        """Run helm as the administrator; return its output or raise its message."""
        return self._run("helm", arguments)

    def new_namespace(self) -> str:
        """Make a namespace with an unused name; without controllers, old ones are never wholly removed."""
        name = f"test-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        return name

    def may(self, user: str, verb: str, resource: str, namespace: str) -> bool:
        """Return whether the server permits it to `user`; a new role's rights take some moments."""
        question = ("auth", "can-i", verb, resource, f"--as={user}", "--namespace", namespace)
        return self._ask("kubectl", question).stdout.strip() == "yes"  # a no is exit status 1

    def service_account_token(self, namespace: str, name: str) -> str:
        """Return a new token of an existing ServiceAccount, valid for an hour (TokenRequest)."""
        return self.kubectl("create", "token", name, "--namespace", namespace).strip()

    def _run(self, tool: str, arguments: tuple[str, ...], given: str | None = None) -> str:
        done = self._ask(tool, arguments, given)
        if done.returncode != 0:
            raise RuntimeError(f"{tool} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _ask(
        self, tool: str, arguments: tuple[str, ...], given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),  # both keep caches there
            "KUBECONFIG": str(self.kubeconfig),
        }
        command = [str(CLIENTS / tool), *arguments]
        return subprocess.run(
            command,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def _start_server(self) -> None:
        self._server.start()
        wait_until(self._is_ready, lambda: f"kube-apiserver is ready\n{self._server.log.read_text()[-4000:]}")

    def _is_ready(self) -> bool:
        # Until the server knows all rights, it refuses even its administrator.
        try:
            with self.open("/readyz", self._token, timeout_s=30) as answer:
                return bool(answer.read() == b"ok")
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return False
        except (OSError, http.client.HTTPException):
            return False

    def _write_keys(self) -> None:
        (self._folder / "tokens.csv").write_text(
            f'{self._token},administrator,administrator,"system:masters"\n'
        )
        key = str(self._folder / "service-accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "administrator", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "administrator"}}],
        }
        self.kubeconfig.write_text(json.dumps(document))
        self.kubeconfig.chmod(0o600)


def _etcd(folder: Path, port: int) -> list[str]:
    client = f"http://127.0.0.1:{port}"
    return [
        str(SERVERS / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        "--listen-peer-urls=http://127.0.0.1:0",
    ]


def _apiserver(folder: Path, port: int, etcd_port: int) -> list[str]:
    key = folder / "service-accounts.key"
    return [
        str(SERVERS / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # It would demand each pod's ServiceAccount, and a controller makes those elsewhere.
        "--disable-admission-plugins=ServiceAccount",
        # Not the Service `kubernetes`, because a loopback address cannot be an endpoint.
        "--endpoint-reconciler-type=none",
    ]
