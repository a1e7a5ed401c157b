"""A table's weights in HAProxy's range: whole numbers from 1 to 256.

Pure.

    t_j = 100 k w_j / sum w          the exact weight; 100 is an equal share
    t_j = t_j 256 / max t            if the largest would exceed 256: ratios hold
    max(1, round t_j)

w is the weight table's column and k the number of its rows, whatever their
states, so that draining one server moves no other's weight. The result is
never 0: HAProxy would take 0 for a drain, and only a person drains.
"""

from collections.abc import Mapping
from math import floor

from steelyard_protocol.weight_table import WeightTable

# HAProxy's largest weight.
MAX_HAPROXY_WEIGHT = 256


def haproxy_weights(table: WeightTable) -> Mapping[str, int]:
    """Return each peer's weight in HAProxy, 1..256."""
    total = sum(peer.weight for peer in table.peers)
    largest = max((peer.weight for peer in table.peers), default=0)
    if total == 0:
        return {}
    scale = min(100 * len(table.peers) / total, MAX_HAPROXY_WEIGHT / largest)
    return {peer.id: max(1, floor(peer.weight * scale + 0.5)) for peer in table.peers}
