"""HAProxy's `show stat`: what it has of its servers. Pure."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_loadtest.machine.errors import UnreadableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A server: its status (`no check`, `UP`, `DRAIN`, `MAINT`), weight, how its last agent-check ended."""

    status: str
    weight: int
    agent_status: str


def servers(said: str, backend: str) -> Mapping[str, Row]:
    """Return the servers of a backend from `show stat`. Raises UnreadableError."""
    try:
        rows = [row for row in csv.DictReader(said.lstrip("# ").splitlines()) if row["pxname"] == backend]
        servers_of = {
            row["svname"]: Row(
                status=row["status"], weight=int(row["weight"]), agent_status=row["agent_status"] or ""
            )
            for row in rows
            if row["svname"] != "BACKEND"
        }
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise UnreadableError(f"HAProxy's `show stat` is not as it should be: {error!r}") from None
    if not servers_of:
        raise UnreadableError(f"HAProxy's `show stat` has no servers of {backend}: {said[:300]!r}")
    return servers_of
