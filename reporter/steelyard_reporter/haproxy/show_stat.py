"""HAProxy's reports on its processes and servers: `show info`, `show stat`, and the master's `show proc`.

Pure: text in, rows out. `show stat` is CSV with a first line of column names (HAProxy's management
guide, 9.1). Columns are found by name, so that every version can be read.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from steelyard_protocol import wire

# Responses by their status; HAProxy counts one when its header has come.
_ANSWERED = ("hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_other")

# Tries without a connection, and retries elsewhere or at the same server.
_UNANSWERED = ("econ", "wretr", "wredis")

# A row of this type is a server.
_SERVER = "2"

# A process's number and its age in seconds have no more.
MOST_DIGITS = 18


class HaproxyFault(Exception):
    """HAProxy did not answer, or not in a usable way; the message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """One server of a backend, with totals since its HAProxy began.

    completed, failed   tries with a response below 500 that did not break off, and all others; in TCP, ended
                        connections, and failed ones
    timed               number of requests in the mean `latency_ms`, rounded up
    status              as on the statistics page, such as UP, DRAIN, MAINT, `DOWN 1/2`
    weight              configured weight, 0..256
    address             empty if the socket's level is below `operator`
    """

    name: str
    completed: int
    failed: int
    in_flight: int
    timed: int
    latency_ms: int
    status: str
    weight: int
    has_agent_check: bool
    address: str


Servers = Mapping[str, ServerRow]

Version = tuple[int, int]
"""HAProxy's version, such as (2, 6)."""

UNKNOWN_VERSION: Version = (999, 0)
"""A version that cannot be read: newer than all known ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One HAProxy process at one moment; `servers` by backend, None: it has no such backend.

    `ending`: a reload has replaced it, and it finishes its requests. `via` is the socket that answered for
    it, and `prefix` the beginning of a command to it there. `version` is (major, minor), and `groups` its
    number of thread groups, which versions before 3.4 do not show.
    """

    pid: int
    uptime_s: int
    ending: bool
    via: str
    prefix: str
    servers: Mapping[str, Servers | None]
    version: Version = (0, 0)
    groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """The members of `show info` that matter; see `Process`."""

    pid: int
    uptime_s: int
    version: Version
    groups: int


def parse_info(text: str, via: str) -> Info:
    """Return a process's `show info`; raise `HaproxyFault`."""
    fields = dict(line.partition(": ")[::2] for line in text.splitlines() if ": " in line)
    pid = _digits(fields.get("Pid", ""))
    if fields.get("Name") != "HAProxy" or pid is None:
        refuse_denied(text, via)
        raise HaproxyFault(
            f"{via} is no runtime socket of HAProxy (it answers {shown(text)}): "
            "name the one of `stats socket` in haproxy.cfg"
        )
    return Info(
        pid=pid,
        uptime_s=_digits(fields.get("Uptime_sec", "")) or 0,
        version=_version(fields.get("Version", "")),
        groups=max(1, _digits(fields.get("NbThreadGroups", "")) or 1),
    )


def parse_stat(text: str, backend: str, via: str) -> Servers | None:
    """Return the servers of a backend by name, None if there is no such backend; raise `HaproxyFault`."""
    if text.startswith("No such proxy"):
        return None
    refuse_denied(text, via)
    if not text.startswith("# pxname,svname,"):
        raise HaproxyFault(f"{via} does not answer `show stat` (it answers {shown(text)})")
    table = csv.DictReader(io.StringIO(text.removeprefix("# ")))
    try:
        rows = [row for row in table if row["pxname"] == backend]
        servers = [_server(row) for row in rows if row["type"] == _SERVER]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise HaproxyFault(f"{via}: `show stat` of {backend} cannot be read: {error!r}") from None
    # A backend has a row of its own, too.
    return {row.name: row for row in servers} if rows else None


def parse_workers(text: str) -> list[tuple[int, bool]]:
    """Return (pid, whether a reload has replaced it) of each worker in the master's `show proc`."""
    workers, ending = [], False
    for line in text.splitlines():
        words = line.split()
        if line.startswith("#"):
            ending = "old" in words
        elif len(words) > 1 and words[1] == "worker" and (pid := _digits(words[0])) is not None:
            workers.append((pid, ending))
    return workers


def is_masters(text: str) -> bool:
    """Return whether an answer to `show info` is the master process's, which lacks that command."""
    return text.startswith("Unknown command") and "show proc" in text


def is_gone(text: str) -> bool:
    """Return whether the master answers that the worker is gone."""
    return text.startswith("Can't find the target")


def is_a_frontends(text: str) -> bool:
    """Return whether `show stat` of a name has no row: a frontend of that name hides the backend."""
    return text.startswith("# pxname,") and "\n" not in text.strip()


def refuse_denied(text: str, via: str) -> None:
    """Raise `HaproxyFault` if HAProxy denies the socket the right to a command."""
    if "Permission denied" in text:
        raise HaproxyFault(
            f"{via} has no right to that: write `level admin` behind `stats socket` in haproxy.cfg"
        )


def shown(text: str) -> str:
    """Return the beginning of an answer, for a person."""
    words = " ".join(text.split())
    return repr(words if len(words) <= 60 else f"{words[:60]}...") if words else "nothing"


def _server(row: Mapping[str, str]) -> ServerRow:
    if not row["scur"]:
        raise ValueError("scur is empty")
    in_flight = _count(row, "scur")
    unanswered = sum(_count(row, name) for name in _UNANSWERED)
    # No valid or timely response, and responses that broke off. Most of the latter are in `eresp`, too; those
    # whose server fell silent are in `srv_abrt` alone.
    broken_off, invalid = _count(row, "srv_abrt"), _count(row, "eresp")
    mode: Literal["http", "tcp"] = "http" if row["hrsp_2xx"] else "tcp"
    if mode == "http":
        answered = sum(_count(row, name) for name in _ANSWERED)
        errors = _count(row, "hrsp_5xx")
        # HAProxy counted a response that broke off by its status, when its header came.
        completed = max(0, answered - broken_off)
        failed, timed = unanswered + max(invalid, broken_off) + errors, answered + errors
    else:
        # Each try is a session of the server; a session neither open nor failed has ended.
        failed = unanswered + invalid
        completed = max(0, _count(row, "stot") - in_flight - failed)
        timed = _count(row, "lbtot")
    return ServerRow(
        name=row["svname"],
        completed=completed,
        failed=failed,
        in_flight=in_flight,
        timed=timed,
        latency_ms=_count(row, "rtime" if mode == "http" else "ctime"),
        status=row["status"] or "",
        weight=_count(row, "uweight" if row.get("uweight") else "weight"),
        has_agent_check=bool(row.get("agent_status")),
        address=row.get("addr") or "",
    )


def _count(row: Mapping[str, str], name: str) -> int:
    """Return a counter; 0 if this version of HAProxy lacks it."""
    count = int(row.get(name) or 0)
    if not 0 <= count <= wire.MAX_INTEGER:
        raise ValueError(f"{name} is out of bounds")
    return count


def _version(text: str) -> Version:
    major, _, rest = text.partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    version = _digits(major), _digits(minor)
    return UNKNOWN_VERSION if version[0] is None or version[1] is None else (version[0], version[1])


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
