"""The columns of a snapshot that follow from an upstream's declaration. Pure.

They are made once for a declaration, and used at every tick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Bools, Floats, Ints


@dataclass(slots=True, kw_only=True, eq=False)
class DeclaredColumns:
    """The columns of k peers by n indicators.

    places       the place of each peer
    indicators   n, the declared indicators: those of the four first
    knees        n, NaN: the law's own
    baseline     k, NaN: undeclared
    eligible     k, whether a peer gets requests
    max_conns    k, NaN: no limit
    pins         k, per cent of the requests; NaN: not pinned; empty: no peer is
    """

    ids: tuple[str, ...]
    places: Mapping[str, int]
    indicators: tuple[str, ...]
    knees: Floats
    baseline: Floats
    eligible: Bools
    max_conns: Floats
    pins: Floats
    _reported_ids: Sequence[str] = ()
    _reported_places: Ints = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @classmethod
    def of(
        cls, peers: Sequence[Peer], knees: Mapping[str, float | None], max_conns: int | None
    ) -> "DeclaredColumns":
        """Return the columns of these peers.

        knees       the declared knee of each indicator that counts, in the order of the columns
        max_conns   the limit of peers without one of their own
        """
        ids = tuple(peer.id for peer in peers)
        baselines = [np.nan if peer.baseline is None else peer.baseline for peer in peers]
        pins = [np.nan if peer.pin is None else peer.pin for peer in peers]
        return cls(
            ids=ids,
            places={peer: place for place, peer in enumerate(ids)},
            indicators=tuple(knees),
            knees=np.array([np.nan if knee is None else knee for knee in knees.values()], dtype=float),
            baseline=np.array(baselines, dtype=float),
            eligible=np.array([peer.state == "up" for peer in peers], dtype=bool),
            max_conns=np.array([peer.max_conns or max_conns or np.nan for peer in peers], dtype=float),
            pins=np.array(pins, dtype=float) if any(peer.pin is not None for peer in peers) else np.empty(0),
        )

    def places_of(self, reported: Sequence[str]) -> Ints:
        """Return the places of the peers of a report; below 0: it is no peer."""
        if reported != self._reported_ids:  # Load balancers with the same table report the same peers.
            places = [self.places.get(peer, -1) for peer in reported]
            self._reported_ids = reported
            self._reported_places = np.array(places, dtype=np.intp)
        return self._reported_places
