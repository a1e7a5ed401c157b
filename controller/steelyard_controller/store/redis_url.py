"""The URL of a Redis: one server, a primary behind Sentinels, or a Redis Cluster. Text only.

    redis://user@host:6379/0                                       rediss:// with TLS; unix:///path
    redis+sentinel://user@host:26379,host:26379/mymaster/0         rediss+sentinel:// with TLS to both kinds
    redis+cluster://user@host:6379,host:6379                       rediss+cluster:// with TLS

The user is Redis's; the Sentinels' user is `?sentinel_username=`. Errors repeat no part of the URL that may
contain a password.
"""

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from redis.asyncio.connection import parse_url

FORMS = (
    "write it as redis://host:port/0, rediss://…, unix:///path, redis+sentinel://host:26379,…/mymaster/0, "
    "redis+cluster://host:6379,… or memory://"
)

_SEVERAL = re.compile(
    r"(?P<scheme>rediss?)\+(?P<kind>sentinel|cluster)://"
    r"(?:(?P<user>[^/?]*)@)?(?P<hosts>[^/?@]*)(?P<path>[^?]*)(?:\?(?P<query>.*))?",
    re.DOTALL,
)

_PORTS = {"sentinel": 26379, "cluster": 6379}

# The options of redis-py that a URL of one server may have. redis-py takes some others as text, so that
# decode_responses=False is true. For an unknown one it raises a TypeError at the first connection.
_SERVER_OPTIONS = {
    *("db", "username", "password", "protocol", "client_name"),
    *("socket_timeout", "socket_connect_timeout", "socket_keepalive"),
    *("health_check_interval", "max_connections"),
}
# redis-py takes these from the rest of the URL. From the query it ignores them, or passes on a text that
# raises a TypeError at the first connection.
_PLACE = {"host", "port", "path", "connection_class"}
_TLS_OPTIONS = {"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"}
_SENTINEL_OPTIONS = {"sentinel_username", "sentinel_password"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUrl:
    """A Redis: redis-py's options of a connection to it, and to a Sentinel.

    `hosts` are Sentinels or nodes of a cluster; `primary` is the primary's name at the Sentinels.
    """

    kind: Literal["server", "sentinel", "cluster"]
    hosts: tuple[tuple[str, int], ...] = ()
    primary: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def parse(url: str) -> RedisUrl:
    """Read a URL; raise ValueError with the remedy."""
    scheme, separator, _ = url.partition("://")
    if scheme in {"redis", "rediss", "unix"} and separator:
        return RedisUrl(kind="server", options=_server(scheme, url))
    parts = _SEVERAL.fullmatch(url)
    if parts is None:
        raise ValueError(FORMS)
    kind: Literal["sentinel", "cluster"] = "sentinel" if parts["kind"] == "sentinel" else "cluster"
    hosts = tuple(_host(kind, host) for host in parts["hosts"].split(","))
    primary, database = _path(kind, parts["path"].strip("/"))
    user = f"{parts['user']}@" if parts["user"] else ""
    query = f"?{parts['query']}" if parts["query"] else ""
    options = _options(f"{parts['scheme']}://{user}host:1/{query}")
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    allowed = {"username", "password"} | (_TLS_OPTIONS if parts["scheme"] == "rediss" else set())
    unknown = {*options} - allowed - (_SENTINEL_OPTIONS if kind == "sentinel" else set())
    _refuse(unknown, f"rediss+{kind}")
    if parts["scheme"] == "rediss":
        options["ssl"] = True
    sentinel = {name: value for name, value in options.items() if name.startswith("ssl")}
    for name in sorted(_SENTINEL_OPTIONS & {*options}):
        sentinel[name.removeprefix("sentinel_")] = options.pop(name)
    if database:
        options["db"] = database
    return RedisUrl(kind=kind, hosts=hosts, primary=primary, options=options, sentinel_options=sentinel)


def _server(scheme: str, url: str) -> dict[str, Any]:
    options, parts = _options(url), urllib.parse.urlsplit(url)
    unknown = {*options} - _PLACE - _SERVER_OPTIONS - (_TLS_OPTIONS if scheme == "rediss" else set())
    _refuse(unknown | (_PLACE & {*urllib.parse.parse_qs(parts.query)}), "rediss")
    path = urllib.parse.unquote(parts.path)
    # redis-py would take /1/2 for the database 12, and /production for 0.
    if scheme != "unix" and not re.fullmatch(r"/?(\d{1,5}/?)?", path, re.ASCII):
        raise ValueError(
            "after the host comes the database, a number: redis://host:6379/0; with the name of a primary at "
            "Sentinels, write redis+sentinel://"
        )
    return options


def _refuse(unknown: set[str], tls_scheme: str) -> None:
    if unknown:
        hint = f": write it as {tls_scheme}://" if unknown <= _TLS_OPTIONS else ""
        raise ValueError(f"a URL of this kind has no option {ascii(min(unknown))[1:-1]}{hint}")


def _options(url: str) -> dict[str, Any]:
    try:
        return dict(parse_url(url))
    except ValueError:
        # The library's message may contain a part of a password.
        raise ValueError(
            "its host, port, database or options cannot be read: write it as redis://host:6379/0, "
            "with special characters of a password as %XX"
        ) from None


def _path(kind: str, path: str) -> tuple[str, int]:
    """Return the primary's name, empty for a cluster, and the database."""
    if kind == "cluster":
        if path not in {"", "0"}:
            raise ValueError("a Redis Cluster has the database 0 only: end the URL after its hosts")
        return "", 0
    name, _, database = path.partition("/")
    if not name or not re.fullmatch(r"\d{0,5}", database, re.ASCII):
        raise ValueError(
            "give the primary's name at the Sentinels, and the database: "
            "redis+sentinel://host:26379,host:26379/mymaster/0"
        )
    return urllib.parse.unquote(name), int(database or 0)


def _host(kind: str, text: str) -> tuple[str, int]:
    try:
        parts = urllib.parse.urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        example = f"host:{_PORTS[kind]},host:{_PORTS[kind]}"
        raise ValueError(
            f"its hosts cannot be read: write them as redis+{kind}://{example}, an IPv6 address in brackets, "
            "with special characters of a password as %XX"
        )
    return host, port or _PORTS[kind]
