"""Access to the API server: its URL, the CA, the credentials. I/O: reads their files.

The `kubernetes` client finds and renews them. They are the ServiceAccount of the
pod, whose token it reads again each minute, or a kubeconfig with any of its ways
to sign on. The requests are httpx's, because the client's own watch has three
faults. It runs in a thread. It waits for a slow server without end, since each
byte restarts its timeout. It yields None for a line that is not JSON.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx

# The kubelet's folder for it.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# A server on the same network accepts within milliseconds; this allows for a busy load balancer in front.
CONNECT_S = 5.0

# A watch is silent for minutes. With these options, the kernel notices a dead peer after half a minute.
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


class AccessError(Exception):
    """The API server cannot be reached; the message has the reason and the remedy."""


class ApiServer:
    """Makes clients of the API server; raises `AccessError` without a configuration for it.

    `account` is the folder of the pod's ServiceAccount.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> None:
        self._environment = environment
        self._account = account
        self._load()

    async def connect(self) -> httpx.AsyncClient:
        """Return a client with the current CA and credentials; raise `AccessError`."""
        return await asyncio.to_thread(self._client)

    def _client(self) -> httpx.AsyncClient:
        configuration = self._load()
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            if not configuration.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file)
        except (OSError, ValueError) as error:
            raise AccessError(f"its CA or the client's certificate cannot be read: {error}") from None
        transport = httpx.AsyncHTTPTransport(
            verify=context, proxy=configuration.proxy or None, socket_options=_KEEPALIVE, trust_env=False
        )
        return httpx.AsyncClient(
            base_url=configuration.host,
            transport=transport,
            auth=_Credentials(configuration),
            # The caller bounds the time of an answer, because each byte would restart a read timeout.
            timeout=httpx.Timeout(None, connect=CONNECT_S, write=CONNECT_S),
            headers={"Accept": "application/json", "User-Agent": "steelyard-controller"},
        )

    def _load(self) -> Any:  # noqa: ANN401
        try:
            from kubernetes.client import Configuration
            from kubernetes.config import load_kube_config
            from kubernetes.config.incluster_config import InClusterConfigLoader
        except ImportError:
            raise AccessError(
                "the Kubernetes client is not installed: pip install 'steelyard-controller[kubernetes]', or "
                "leave STEELYARD_KUBERNETES out"
            ) from None
        # With an empty proxy, the environment's is ignored: NO_PROXY hardly ever names the API server.
        configuration = Configuration(proxy="")
        file = self._environment.get("KUBECONFIG")
        try:
            if file is None and "KUBERNETES_SERVICE_HOST" in self._environment:
                token, ca = (str(self._account / name) for name in ("token", "ca.crt"))
                loader = InClusterConfigLoader(token, ca, environ=self._environment)  # type: ignore[no-untyped-call]
                loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
            else:
                load_kube_config(config_file=file, client_configuration=configuration)  # type: ignore[no-untyped-call]
        except Exception as error:  # Including those of its YAML, JSON and PEM.
            raise AccessError(
                f"there is no configuration for the API server ({one_line(error)}): run in a pod with a "
                "ServiceAccount, or name a kubeconfig in KUBECONFIG"
            ) from None
        return configuration


class _Credentials(httpx.Auth):
    """Adds the current token to each request, and the name that the certificate must have."""

    def __init__(self, configuration: Any) -> None:  # noqa: ANN401
        self._configuration = configuration

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add them; raise `AccessError`."""
        configuration = self._configuration
        try:
            # It may run a program, which takes some time.
            token = await asyncio.to_thread(configuration.get_api_key_with_prefix, "BearerToken")
        except Exception as error:
            raise AccessError(f"its token cannot be read: {one_line(error)}") from None
        if token:
            request.headers["Authorization"] = token.strip()
        if configuration.tls_server_name:
            request.extensions["sni_hostname"] = configuration.tls_server_name
        yield request


def one_line(error: Exception) -> str:
    """Return an error's text in one line."""
    return " ".join(str(error).split()) or type(error).__name__
