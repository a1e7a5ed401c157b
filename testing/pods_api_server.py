"""A stand-in for Kubernetes' API server with recorded answers, for tests of its clients."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from testing.certificates import Authority
from testing.handler_server import PromptHTTPServer

TOKEN = "a.service.accounts-token"  # noqa: S105 (an example)


def pod(name: str, uid: str, **metadata: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """Return a pod as in the API server's list of metadata; `metadata` takes precedence."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": "4711",
            "creationTimestamp": "2026-11-23T08:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "6d4b75cb6d", "steelyard/upstream": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4b75cb6d"}],
            **metadata,
        }
    }


def pod_list(*pods: dict[str, Any]) -> bytes:
    """Return the answer with these pods."""
    document = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "4712"},
        "items": list(pods) or None,  # as from a real server without pods
    }
    return json.dumps(document).encode()


def refusal(code: int, reason: str, message: str) -> bytes:
    """Return the body of a refusal."""
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return json.dumps({**document, "reason": reason, "code": code}).encode()


class PodsApiServer:
    """Answers each GET with `status` and `body`; `folder` is the ServiceAccount's, `asked` has the GETs."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.folder = folder
        self.status = 200
        self.body = pod_list()
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Return the kubelet's variables."""
        return {"KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": str(self.port)}


@contextmanager
def pods_api_server(folder: Path) -> Iterator[PodsApiServer]:
    """Serve over TLS on a free port of 127.0.0.1 until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder)
    (folder / "ca.crt").write_bytes(authority.path.read_bytes())
    (folder / "token").write_text(TOKEN)
    api: PodsApiServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            api.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(api.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(api.body)))
            self.end_headers()
            self.wfile.write(api.body)

        def log_message(self, *_: object) -> None:
            return

    class Server(PromptHTTPServer):
        def handle_error(self, *_: object) -> None:
            return  # the client distrusts the certificate, or has gone

    server = Server(("127.0.0.1", 0), Handler)
    server.socket = authority.server("localhost").wrap_socket(server.socket, server_side=True)
    api = PodsApiServer(server.server_port, folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
