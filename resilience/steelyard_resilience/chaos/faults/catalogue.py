"""The faults that faults.toml declares, with what does and undoes each."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from steelyard_resilience.chaos.fault import ACTIONS, Bound, Fault
from steelyard_resilience.chaos.faults import (  # noqa: F401 - their actions
    cuts_and_clocks,
    dns_faults,
    envoy_faults,
    forged_values,
    nginx_faults,
    process_faults,
    store_faults,
)

DECLARED = Path(__file__).with_name("faults.toml")

KEYS = frozenset(
    ("name", "faults", "each", "on", "act", "with", "lasts", "well_after", "slowest", "slow", "failed",
     "rung", "why", "quick", "faketime", "front")
)  # fmt: skip


def load(text: str) -> tuple[Fault, ...]:
    """Return all faults, in the order of the table. Raises KeyError, ValueError for a mistake."""
    document = tomllib.loads(text)
    return tuple(_faults(document["group"], document["seconds"]))


def _faults(groups: list[dict[str, Any]], named: Mapping[str, float]) -> Iterator[Fault]:
    def seconds(times: list[str | float]) -> float:
        return sum((named[time] if isinstance(time, str) else time for time in times), 0.0)

    for group in groups:
        for on, own in group["on"].items():
            for variant in group.get("each", [{}]):
                row = {**group, **variant, **own}
                if unknown := row.keys() - KEYS:
                    raise ValueError(f"{on}: a fault has no {', '.join(sorted(unknown))}")
                names: str | None = row.get("faults")
                more = {name: row[name] for name in ("quick", "faketime", "front") if name in row}
                bound = {name: row[name] for name in ("failed", "slow", "rung") if name in row}
                yield Fault(
                    name=names.format(on) if names else on,
                    group=group["name"],
                    act=partial(ACTIONS[row["act"]], *([on] if names else []), **row.get("with", {})),
                    lasts_s=seconds(row.get("lasts", [])),
                    bound=Bound(
                        worst_ms=1000 * seconds(["calm", *row.get("slowest", [])]),
                        recover_s=seconds(row.get("well_after", ["ticks"])),
                        why=row.get("why", "").format(**row.get("with", {})),
                        **bound,
                    ),
                    **more,
                )
