"""The weights that agent-check answers: small changes wait, each server's for a time of its own.

Pure. HAProxy queues a server anew with each new weight, and asks for the weights in the order of haproxy.cfg.
With `leastconn` or at low rates, the servers would then get their requests in that order. So a change that is
small (`is_small_in_haproxy`) is answered ten to twenty seconds after the server's last change. The time is
random, because all servers at once would be queued anew in that order again.
"""

from collections.abc import Callable, Mapping

from steelyard_protocol.small_changes import is_small_in_haproxy

# As long as the reporter lets them wait; and at most twice that.
NEAR_ENOUGH_S = 10.0


class HeldWeights:
    """The weights of one upstream; `random` returns 0..1."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._held: dict[str, tuple[int, float]] = {}

    def next(self, weights: Mapping[str, int], now_s: float) -> Mapping[str, int]:
        """Return each peer's weight to answer at `now_s` of a monotonic clock."""
        held = {}
        for peer, weight in weights.items():
            before, until_s = self._held.get(peer, (0, now_s))
            if before == weight or (now_s < until_s and is_small_in_haproxy(before, weight)):
                held[peer] = before, until_s
            else:
                held[peer] = weight, now_s + NEAR_ENOUGH_S * (1.0 + self._random())
        self._held = held
        return {peer: weight for peer, (weight, _) in held.items()}
