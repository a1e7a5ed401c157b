"""Talks to the running cluster: the load balancer, the controller and the servers themselves (I/O)."""

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from steelyard_loadtest.demo.records import Cost, parse_servers
from steelyard_loadtest.machine.errors import ProgramError

TIMEOUT_S = 5.0
CALIBRATION_REQUESTS = 100  # 0.1 s of CPU a server: enough for 10 %, and done in a second


def call(method: str, url: str, timeout_s: float = TIMEOUT_S) -> tuple[int, object]:
    """Send a request without a body; return its status and JSON (None: no JSON). Raises OSError."""
    request = urllib.request.Request(url, method=method)  # noqa: S310 (the command line lets in http only)
    # No proxy: everything here is one's own cluster, mostly on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return response.status, _json(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


def must(method: str, url: str, what: str) -> object:
    """Send a request that has to succeed; return its JSON. Raises ProgramError: `what` and the remedy."""
    try:
        status, document = call(method, url)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ProgramError(
            f"{what} does not answer at {url} ({reason}); start the cluster: make up"
        ) from error
    if not 200 <= status < 300:
        raise ProgramError(f"{what} answers {status} at {url}; look at it: make status")
    return document


def burn(server_url: str, *, seconds: int, workers: int) -> None:
    """Start CPU burners on a server. Raises ProgramError."""
    must("POST", f"{server_url}/burn?seconds={seconds}&workers={workers}", "the server to burn")


def stop_burning(server_url: str) -> None:
    """Stop the burners, best effort: they also stop by themselves."""
    with contextlib.suppress(OSError):
        call("DELETE", f"{server_url}/burn")


def servers_of(controller_url: str) -> dict[str, str]:
    """Ask the controller for the servers: name -> base URL. Raises ProgramError."""
    servers = parse_servers(must("GET", controller_url, "the controller"))
    if not servers:
        raise ProgramError(f"the controller at {controller_url} knows no servers; look at it: make status")
    return servers


def measure_cost(name: str, url: str) -> Cost:
    """Send a server CALIBRATION_REQUESTS and see what CPU they took. Raises ProgramError."""
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.netloc, timeout=TIMEOUT_S)  # kept alive, as the load balancer's are
    documents = []
    try:
        for path in ("/healthz", *["/"] * CALIBRATION_REQUESTS, "/healthz"):
            connection.request("GET", path)
            with connection.getresponse() as response:
                documents.append(_json(response.read()))
    except (OSError, http.client.HTTPException) as error:
        raise ProgramError(
            f"{name} does not answer at {url} ({error}); start the cluster: make up"
        ) from error
    finally:
        connection.close()
    match documents[0], documents[-1]:
        case (
            {"cpu_seconds": int() | float() as before_s},
            {"cpu_seconds": int() | float() as after_s, "cpu_limit_cores": int() | float() as limit},
        ) if after_s > before_s:
            return Cost(cpu_s_per_request=(after_s - before_s) / CALIBRATION_REQUESTS, limit_cores=limit)
    raise ProgramError(f"{name} at {url} tells no CPU limit or usage; give the load yourself: --rate 300")


def _json(body: bytes) -> object:
    try:
        document: object = json.loads(body)
    except ValueError:
        return None
    return document
