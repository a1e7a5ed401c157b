"""A law's weights with some of their parts replaced by the truth: what does each part cost? Pure.

W_j = capacity_j backlog_j slow_j err_j join_j          as steps 7 to 12 of docs/control-law.md

capacity     the true capacity, averaged over the tick that has passed
change       each later change of the true capacity, at once and at every load balancer
backlog, faults, start   the factor is 1 (faults: slow and err; start: join)
"""

from dataclasses import replace

import numpy as np
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.quantize import quantize

from steelyard_simulator.model import Case, Floats
from steelyard_simulator.simulated_server import able_at, speed_edges

FACTORS = {"backlog": ("backlog",), "faults": ("slow", "err"), "start": ("join",)}
# No weight is 0.
LEAST = 1e-9


class KnownParts:
    """The weights of one upstream, with the parts of `case.balancing.known` replaced."""

    def __init__(self, case: Case) -> None:
        self._known, self._tick_s = frozenset(case.balancing.known), case.tick_s
        edges = sorted({edge for server in case.servers for edge in speed_edges(server)})
        self._edges = np.array(edges)
        # Failures and absences are no part of a capacity: err and the load balancers know them.
        working = [replace(server, away=(), failing=()) for server in case.servers]
        self._able = np.array([[able_at(each, case.work, edge) for each in working] for edge in edges])
        self._weights, self._able_then = np.ones(len(case.servers)), self._able[0]

    @property
    def changes_s(self) -> list[float]:
        """Return the moments of changes that all load balancers know at once; none if they do not."""
        return self._edges.tolist() if "change" in self._known else []

    def after(self, decision: Decision, now_s: float) -> Floats:
        """Return the weights from a tick's decision."""
        columns, parameters = decision.columns, decision.parameters
        self._able_then = self._mean_able(max(now_s - self._tick_s, 0.0), now_s)
        weights = self._able_then if "capacity" in self._known else decision.capacity_estimate
        for part, factors in FACTORS.items():
            if part not in self._known:
                weights = weights * np.prod([columns[factor] for factor in factors], axis=0)
        weights = np.maximum(weights, LEAST) * (decision.total / max(weights.sum(), LEAST))
        floor, ceiling = parameters["m_min"], np.exp(parameters["z_max"])
        self._weights = decision.baseline * np.clip(weights / decision.baseline, floor, ceiling)
        pinned = ~np.isnan(columns["pinned"])
        self._weights = np.where(pinned, decision.weights, self._weights)
        return self.at(now_s)

    def at(self, now_s: float) -> Floats:
        """Return the weights at a moment: the last tick's, and with `change` those that follow it."""
        if "change" not in self._known:
            return self._weights
        able = self._able[np.searchsorted(self._edges, now_s, side="right") - 1]
        weights: Floats = self._weights * np.maximum(able, LEAST) / np.maximum(self._able_then, LEAST)
        return weights

    def _mean_able(self, from_s: float, until_s: float) -> Floats:
        inside = self._edges[(self._edges > from_s) & (self._edges < until_s)]
        edges = np.concatenate(([from_s], inside, [until_s]))
        able = self._able[np.searchsorted(self._edges, edges[:-1], side="right") - 1]
        mean: Floats = np.average(able, axis=0, weights=np.maximum(np.diff(edges), LEAST))
        return mean


def integers(weights: Floats, total: int) -> list[int]:
    """Return the weights as a table has them."""
    table: list[int] = quantize(weights * (total / weights.sum()), total).tolist()
    return table
