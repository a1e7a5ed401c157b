"""The settings of an active health check: their types, bounds and defaults, for every part. Pure.

The weight table (msgspec) and the controller's declarations (pydantic) derive their models from `FIELDS`.
The contract (docs/contract/check.json) has an example on both sides of each bound. The tests of Python and
Lua load it.

A check asks for a path over HTTP, or for gRPC's health service.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "number", "whole number", "flag", "statuses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckField:
    """A setting of a check.

    Numbers and statuses are within `lowest` and `highest`. A text matches `pattern` as a whole and has at
    most `longest` characters. A table always has the settings that are `always_sent`; others have their
    default if it lacks them.
    """

    name: str
    kind: Kind
    default: float | bool | None
    about: str
    lowest: float = 0
    highest: float = 0
    pattern: str = ""
    longest: int = 0
    always_sent: bool = False


# The possible names in a certificate: neither an address nor a port.
SERVER_NAME = re.compile(r"([0-9_-][0-9._-]*)?[A-Za-z][A-Za-z0-9._-]*")

# The texts go into a request of nginx as they are: nothing in them may end its line.
FIELDS = (
    CheckField(
        name="path",
        kind="text",
        default=None,
        about="Path of the HTTP request",
        pattern=r"/[!-~]{0,1000}",
        longest=1001,
    ),
    CheckField(
        name="statuses",
        kind="statuses",
        default=None,
        about="Statuses of a healthy response (default 200 to 399)",
        lowest=100,
        highest=599,
    ),
    CheckField(
        name="interval_s",
        kind="number",
        default=2.0,
        about="Seconds between two checks of a server (default 2)",
        lowest=0.1,
        highest=3600,
        always_sent=True,
    ),
    CheckField(
        name="timeout_s",
        kind="number",
        default=1.0,
        about="Seconds until a check without an answer fails (default 1)",
        lowest=0.05,
        highest=60,
        always_sent=True,
    ),
    CheckField(
        name="rise",
        kind="whole number",
        default=2,
        about="Successive good checks that make a server healthy (default 2)",
        lowest=1,
        highest=100,
        always_sent=True,
    ),
    CheckField(
        name="fall",
        kind="whole number",
        default=3,
        about="Successive failed checks that make a server unhealthy (default 3)",
        lowest=1,
        highest=100,
        always_sent=True,
    ),
    CheckField(
        name="host",
        kind="text",
        default=None,
        about="Host header of the request (default: the server's address)",
        pattern=r"[A-Za-z0-9.:_\[\]-]{1,253}",
        longest=253,
    ),
    CheckField(name="tls", kind="flag", default=False, about="Whether the check uses TLS (default false)"),
    CheckField(
        name="tls_server_name",
        kind="text",
        default=None,
        about="Name for SNI and the certificate (default: the host)",
        pattern=SERVER_NAME.pattern,
        longest=253,
    ),
    CheckField(
        name="tls_verify",
        kind="flag",
        default=True,
        about="Whether the certificate is verified (default true)",
    ),
    CheckField(
        name="grpc_service",
        kind="text",
        default=None,
        about='Service that gRPC\'s health service is asked about, "" for the server as a whole',
        pattern=r"[A-Za-z0-9._/-]{0,127}",
        longest=127,
    ),
)


def conflict(check: Mapping[str, Any]) -> str | None:
    """Return which settings of a complete check contradict each other, and the remedy; None if none do."""
    path, service, tls = check["path"], check["grpc_service"], check["tls"]
    name = check["tls_server_name"] or re.sub(r":\d*$", "", check["host"] or "")
    if path is None and service is None:
        return 'path is missing: give it, or grpc_service ("" for the server as a whole)'
    if service is not None and (path is not None or check["statuses"] is not None):
        return "path and statuses do not go with grpc_service: leave one of them out"
    if service is not None and tls:
        return "tls does not go with grpc_service: nginx cannot do it; check a port without TLS, or a path"
    if not tls and (check["tls_server_name"] is not None or not check["tls_verify"]):
        return "tls_server_name and tls_verify have no effect without tls: true"
    if tls and check["tls_verify"] and not SERVER_NAME.fullmatch(name):
        return (
            "tls_server_name is missing: a certificate is for a name, and host is not one; give it, or "
            "tls_verify: false to trust any certificate"
        )
    return None
