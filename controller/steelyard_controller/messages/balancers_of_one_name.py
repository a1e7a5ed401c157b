"""Load balancers of one name: each loses the reports that the other one overwrites. Pure.

Two runs of one name on one upstream are two programs if they report in turn. In a restart one run follows
another; the last report of the one may be later than the first of the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from steelyard_protocol import name_list, replay_guard
from steelyard_protocol.balancer_runs import Run

# A pair lasts for this long after one of them has stopped. By then the reports of the other one count.
LASTS_S = replay_guard.SILENT_S

# A run returns if it reports again after another one. A restart has at most two returns: the last report of
# the old run, and then one of the new run.
RETURNS = 3

# Names and upstreams that are remembered: anybody who can write to Memcached could fill the memory.
MOST_REMEMBERED = 4096

# Remembered runs of one name on one upstream. A further run is left out until one of them has ended. So the
# time for a tick's lines grows with their number alone. Any two of the remembered runs show a shared name.
MOST_RUNS = 16

# Names in the fault.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Name:
    """The runs of one name on one upstream: the number and time of each one's newest report."""

    runs: Mapping[str, tuple[int, float]]
    last: str
    returns: int = 0

    def after(self, boot: str, seq: int, now_s: float) -> "_Name":
        known = self.runs.get(boot)
        if seq <= known[0] if known is not None else len(self.runs) >= MOST_RUNS:
            return self
        returns = self.returns + (known is not None and boot != self.last)
        return _Name({**self.runs, boot: (seq, now_s)}, boot, returns)

    def without_ended(self, now_s: float) -> "_Name | None":
        if all(now_s - last_s <= LASTS_S for _, last_s in self.runs.values()):
            return self
        runs = {boot: run for boot, run in self.runs.items() if now_s - run[1] <= LASTS_S}
        if not runs:
            return None
        if len(runs) == 1:
            return replace(self, runs=runs, returns=0)
        return replace(self, runs=runs)


@dataclass(frozen=True, slots=True)
class SharedNames:
    """The names by upstream and load balancer; `after` returns them with the lines of a tick."""

    _names: Mapping[tuple[str, str], _Name] = field(default_factory=dict)

    def after(self, lines: Iterable[Run], now_s: float) -> "SharedNames":
        """Return the names after the lines that a tick read."""
        names = dict(self._names)
        for run in lines:
            key = run.upstream, run.lb
            if key in names:
                names[key] = names[key].after(run.boot, run.seq, now_s)
            elif len(names) < MOST_REMEMBERED:
                names[key] = _Name({run.boot: (run.seq, now_s)}, run.boot)
        kept = {key: name.without_ended(now_s) for key, name in names.items()}
        return SharedNames({key: name for key, name in kept.items() if name is not None})

    @property
    def shared(self) -> list[str]:
        """Return the names that two programs have now."""
        return sorted({lb for (_, lb), name in self._names.items() if name.returns >= RETURNS})

    @property
    def fault(self) -> str | None:
        """Return the fault that programs share a name, with the remedy; None: none does."""
        shared = self.shared
        if not shared:
            return None
        return (
            f"two programs report as {name_list.shown(shared, MOST_NAMED)}, and the traffic of one is"
            " lost: give each Envoy its own --service-node, each nginx its own `lb`, each reporter its own"
            " --lb"
        )
