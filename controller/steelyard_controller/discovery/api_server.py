"""How the API server is reached: its URL, the CA, the credentials. I/O: reads their files.

The `kubernetes` client finds and renews them: the ServiceAccount of the pod,
whose token it reads again each minute, or a kubeconfig with all its ways to sign
on. The requests are httpx's: the client's own watch runs in a thread, waits on a
slow server for ever since each byte begins its time anew, and takes a line that
is no JSON for no event.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx

# Where a kubelet puts it.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# A server on the same network accepts within milliseconds; this is for one behind a busy load balancer.
CONNECT_S = 5.0

# A watch is silent for minutes: the kernel finds out after half a minute that nobody is there any more.
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


class AccessError(Exception):
    """The API server cannot be asked; the message says why, and what to do."""


class ApiServer:
    """Makes clients of the API server; raises `AccessError` where nothing says how to reach it.

    `account` is the folder of the pod's ServiceAccount.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> None:
        self._environment = environment
        self._account = account
        self._load()

    async def connect(self) -> httpx.AsyncClient:
        """Return a client with the CA and the credentials as they are now; raise `AccessError`."""
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
            # How long an answer may take is for the caller to say: each byte would begin a read's time anew.
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
        # An empty proxy: else it is taken from the environment, where NO_PROXY hardly names the API server.
        configuration = Configuration(proxy="")
        file = self._environment.get("KUBECONFIG")
        try:
            if file is None and "KUBERNETES_SERVICE_HOST" in self._environment:
                token, ca = (str(self._account / name) for name in ("token", "ca.crt"))
                loader = InClusterConfigLoader(token, ca, environ=self._environment)  # type: ignore[no-untyped-call]
                loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
            else:
                load_kube_config(config_file=file, client_configuration=configuration)  # type: ignore[no-untyped-call]
        except Exception as error:  # those of its YAML, JSON and PEM too
            raise AccessError(
                f"nothing says how to reach the API server ({one_line(error)}): run in a pod with a "
                "ServiceAccount, or name a kubeconfig in KUBECONFIG"
            ) from None
        return configuration


class _Credentials(httpx.Auth):
    """Adds the token to each request, as it is then; and the name that the certificate is to have."""

    def __init__(self, configuration: Any) -> None:  # noqa: ANN401
        self._configuration = configuration

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add them; raise `AccessError`."""
        configuration = self._configuration
        try:
            # It may run a program, which takes its time.
            token = await asyncio.to_thread(configuration.get_api_key_with_prefix, "BearerToken")
        except Exception as error:
            raise AccessError(f"its token cannot be had: {one_line(error)}") from None
        if token:
            request.headers["Authorization"] = token.strip()
        if configuration.tls_server_name:
            request.extensions["sni_hostname"] = configuration.tls_server_name
        yield request


def one_line(error: Exception) -> str:
    """Return what an error says in one line."""
    return " ".join(str(error).split()) or type(error).__name__
