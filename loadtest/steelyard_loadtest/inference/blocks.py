"""An engine's memory of keys and values, in blocks: held by running sequences, or kept for later ones.

Pure. A block is kept after its last sequence until room is needed, the least recently used first, as in
vLLM's automatic prefix caching. There a block has 16 tokens; here it has 512, as in traces with prefixes (Qin
et al., Mooncake, FAST '25). A key stands for a block and all before it: equal keys are equal prefixes.
"""

from collections import Counter
from collections.abc import Sequence

BLOCK_TOKENS = 512


class Blocks:
    """A number of blocks. private: those of a single sequence, which no other sequence has computed yet."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.private = capacity, 0
        self._held = Counter[int]()
        self._kept: dict[int, None] = {}

    @property
    def held(self) -> int:
        """Return the number of blocks that running sequences hold."""
        return self.private + len(self._held)

    @property
    def used(self) -> int:
        """Return the number of blocks with content."""
        return self.held + len(self._kept)

    def matched(self, keys: Sequence[int]) -> int:
        """Return the number of first keys that are cached."""
        away = (place for place, key in enumerate(keys) if key not in self._held and key not in self._kept)
        return next(away, len(keys))

    def take(self, keys: Sequence[int], total: int) -> int | None:
        """Hold `total` blocks for a sequence with these first keys; return how many keys were cached.

        None, without a change, while there is no room.
        """
        matched = self.matched(keys)
        kept = sum(key in self._kept for key in keys[:matched])
        if self.held + kept + total - matched > self.capacity:
            return None
        self._hold(keys[:matched])
        self.private += total - matched
        while self.used > self.capacity:
            del self._kept[next(iter(self._kept))]
        return matched

    def computed(self, keys: Sequence[int]) -> None:
        """Let others use these blocks, which a sequence held privately."""
        self._hold(keys)
        self.private -= len(keys)

    def release(self, keys: Sequence[int], private: int) -> None:
        """End a sequence that held these keys and this number of private blocks."""
        self.private -= private
        # The end of a prompt should go before its beginning, which more prompts share.
        for key in reversed(keys):
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                self._kept[key] = None

    def _hold(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._kept.pop(key, None)
            self._held[key] += 1
