"""What a picker is in the model, whether it is the product's Lua or a peer of comparison. Pure."""

from collections.abc import Sequence
from typing import Protocol


class Picker(Protocol):
    """Chooses servers, 0..k-1, for one load balancer."""

    @property
    def wants_key(self) -> bool:
        """Tell whether the choice depends on the request's key."""

    def update(self, weights: Sequence[int]) -> None:
        """Take a new weight table: k whole numbers, each at least 1."""

    def pick(self, now_s: float, key: int) -> int:
        """Choose a server for a request; it is in flight there from now on."""

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        """Note that a request sent there at `sent_s` has its answer."""
