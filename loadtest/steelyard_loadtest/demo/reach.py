"""Talks to the running cluster: the load balancer, the controller and the servers themselves."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

from steelyard_loadtest.demo.rate import Cost

TIMEOUT_S = 5.0
CALIBRATION_REQUESTS = 100  # 0.1 s of CPU a server: enough for 10 %, and done in a second


class ClusterError(Exception):
    """The cluster did not answer as it must; the message says which part, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and a body."""

    status: int
    body: bytes

    def json(self) -> object:
        """Give the body's JSON; None where it is not JSON."""
        try:
            document: object = json.loads(self.body)
        except ValueError:
            return None
        return document


def call(method: str, url: str, timeout_s: float = TIMEOUT_S) -> Answer:
    """Send one request without a body. Raises OSError when there is no answer."""
    request = urllib.request.Request(url, method=method)  # noqa: S310 (the command line lets in http only)
    # No proxy: everything here is one's own cluster, mostly on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return Answer(status=response.status, body=response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(status=error.code, body=error.read())


def must(method: str, url: str, what: str) -> Answer:
    """Send a request that has to succeed. Raises ClusterError naming `what` and the remedy."""
    try:
        answer = call(method, url)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ClusterError(
            f"{what} does not answer at {url} ({reason}); start the cluster: make up"
        ) from error
    if not 200 <= answer.status < 300:
        raise ClusterError(f"{what} answers {answer.status} at {url}; look at it: make status")
    return answer


def burn(server_url: str, *, seconds: int, workers: int) -> None:
    """Start CPU burners on a server. Raises ClusterError."""
    must("POST", f"{server_url}/burn?seconds={seconds}&workers={workers}", "the server to burn")


def stop_burning(server_url: str) -> None:
    """Stop the burners, best effort: they also stop by themselves."""
    try:
        call("DELETE", f"{server_url}/burn")
    except OSError:
        return


def servers_of(controller_url: str) -> dict[str, str]:
    """Ask the controller for the servers: name -> base URL. Raises ClusterError."""
    document = must("GET", controller_url, "the controller").json()
    peers = document.get("peers") if isinstance(document, dict) else None
    found = {
        peer["id"]: f"http://{peer['address']}"
        for peer in (peers if isinstance(peers, list) else [])
        if isinstance(peer, dict) and isinstance(peer.get("id"), str) and isinstance(peer.get("address"), str)
    }
    if not found:
        raise ClusterError(f"the controller at {controller_url} knows no servers; look at it: make status")
    return found


def measure_cost(name: str, url: str) -> Cost:
    """Send a server CALIBRATION_REQUESTS and see what CPU they took. Raises ClusterError."""
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.netloc, timeout=TIMEOUT_S)  # kept alive, as the load balancer's are
    try:
        before = _usage(_get_json(connection, "/healthz"))
        for _ in range(CALIBRATION_REQUESTS):
            _get_json(connection, "/")
        after = _usage(_get_json(connection, "/healthz"))
    except (OSError, http.client.HTTPException) as error:
        raise ClusterError(
            f"{name} does not answer at {url} ({error}); start the cluster: make up"
        ) from error
    finally:
        connection.close()
    if before is None or after is None or after[0] <= before[0]:
        raise ClusterError(f"{name} at {url} tells no CPU limit or usage; give the load yourself: --rate 300")
    return Cost(cpu_s_per_request=(after[0] - before[0]) / CALIBRATION_REQUESTS, limit_cores=after[1])


def _get_json(connection: http.client.HTTPConnection, path: str) -> object:
    connection.request("GET", path)
    with connection.getresponse() as response:
        return Answer(status=response.status, body=response.read()).json()


def _usage(document: object) -> tuple[float, float] | None:
    if not isinstance(document, dict):
        return None
    used_s, limit = document.get("cpu_seconds"), document.get("cpu_limit_cores")
    if isinstance(used_s, int | float) and isinstance(limit, int | float):
        return float(used_s), float(limit)
    return None
