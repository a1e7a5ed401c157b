"""A model of an inference engine: chunked prefill, decoding in a batch, a cache of prefixes, a waiting queue.

Pure: it has no clock; its user waits as long as a step takes. All times are an engine's own.

    step = (max(c / PREFILL_PER_S, WEIGHTS_S) + n * SEQUENCE_S) / (size * speed)

c: prompt tokens that the step computes (at most CHUNK), n: sequences that get a token. The values are those
of a 70B model (Llama 2's shapes, as Mooncake's) on a node of eight A100, with the bounds of vLLM:

- PREFILL_PER_S: 2 * 70e9 FLOP a token (Kaplan et al., 2020) at half of 8 * 312e12 FLOP/s (NVIDIA's sheet).
- WEIGHTS_S: 140 GB at 8 * 2.0 TB/s are 9 ms, and twice that with the exchange between 80 layers.
- SEQUENCE_S: 320 kB for each token of context (80 layers, 8 heads of 128, keys and values, 16 bits), 12,000
  of them on average, at half the bandwidth.
- CHUNK: vLLM's default when it got chunked prefill, for the time between tokens on A100 (its issue 4580).
- CACHE_TOKENS: (8 * 80 GB * 0.9 - 140 GB) / 320 kB are 1.4 million; the value is a million, as in
  docs/research/inference.md. MOST_RUNNING: this many tokens are some 80 such contexts.
"""

from collections import Counter, deque
from dataclasses import dataclass

from steelyard_loadtest.inference.blocks import BLOCK_TOKENS, Blocks

PREFILL_PER_S = 8000.0
WEIGHTS_S = 0.02
SEQUENCE_S = 0.0005
CHUNK = 512
MOST_RUNNING = 64
CACHE_TOKENS = 1_000_000


def cost_s(input_tokens: float, output_tokens: float) -> float:
    """Return the time that a request takes from a busy engine of size 1, with nothing cached."""
    return input_tokens / PREFILL_PER_S + output_tokens * SEQUENCE_S


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """A request; keys: of its whole blocks, the first `matched` of which were cached when it began."""

    keys: tuple[int, ...]
    input_tokens: int
    output_tokens: int
    matched: int = 0
    to_compute: int = 0
    produced: int = 0

    @property
    def blocks(self) -> int:
        """Return the number of blocks that it needs, including its answer."""
        return -(-(self.input_tokens + self.output_tokens) // BLOCK_TOKENS)

    @property
    def cached_tokens(self) -> int:
        """Return the tokens without computation; the last one is always computed, for the answer's first."""
        return min(self.matched * BLOCK_TOKENS, self.input_tokens - 1)

    @property
    def ended(self) -> bool:
        """Return whether it has its last token."""
        return self.produced >= self.output_tokens


class Engine:
    """An engine `size` times as large as the smallest; speed: the part left of it. totals: since it began."""

    __slots__ = ("_blocks", "_running", "_waiting", "size", "speed", "totals")

    def __init__(self, *, size: float = 1.0, speed: float = 1.0, blocks: Blocks | None = None) -> None:
        """Begin with an empty cache; blocks: by default those of CACHE_TOKENS."""
        self.size, self.speed = size, speed
        self.totals = Counter[str]()
        self._waiting, self._running = deque[Sequence](), list[Sequence]()
        self._blocks = blocks or Blocks(int(size * CACHE_TOKENS) // BLOCK_TOKENS)

    @property
    def waiting(self) -> list[Sequence]:
        """Return the requests that wait, in order."""
        return list(self._waiting)

    @property
    def running(self) -> list[Sequence]:
        """Return the requests that run."""
        return list(self._running)

    @property
    def blocks(self) -> Blocks:
        """Return its memory of keys and values."""
        return self._blocks

    @property
    def queued_tokens(self) -> int:
        """Return the prompt tokens that it has yet to compute, with its present cache."""
        later = sum(one.input_tokens - self._blocks.matched(one.keys) * BLOCK_TOKENS for one in self._waiting)
        return later + sum(one.to_compute for one in self._running)

    @property
    def queue_s(self) -> float:
        """Return the time to compute all its prompts, in its present state."""
        return self.queued_tokens / (PREFILL_PER_S * self.size * self.speed)

    @property
    def tokens(self) -> int:
        """Return the tokens of all running and waiting requests so far."""
        return sum(one.input_tokens + one.produced for one in (*self._running, *self._waiting))

    def add(self, sequence: Sequence) -> bool:
        """Let a request wait for its turn; False if it would never fit."""
        if sequence.blocks > self._blocks.capacity:
            return False
        self._waiting.append(sequence)
        self.totals["requests"] += 1
        return True

    def leave(self, sequence: Sequence) -> None:
        """Forget a request whose client has left. Harmless if it has ended."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        elif sequence in self._running:
            self._end(sequence)

    def step(self) -> tuple[float, list[Sequence]]:
        """Do a step; return its time and the sequences with a token at its end. (0, []): nothing to do."""
        self._admit()
        if not self._running:
            return 0.0, []
        left, got = CHUNK, list[Sequence]()
        for one in self._running:
            now = min(one.to_compute, left)
            left -= now
            one.to_compute -= now
            if not one.to_compute:
                got.append(one)
                if now:
                    self._blocks.computed(one.keys[one.matched :])
        for one in got:
            one.produced += 1
            if one.ended:
                self._end(one)
        self.totals.update(computed_tokens=CHUNK - left, generated_tokens=len(got))
        took_s = max((CHUNK - left) / PREFILL_PER_S, WEIGHTS_S) + len(got) * SEQUENCE_S
        return took_s / (self.size * self.speed), got

    def _admit(self) -> None:
        while self._waiting and len(self._running) < MOST_RUNNING:
            first = self._waiting[0]
            matched = self._blocks.take(first.keys, first.blocks)
            if matched is None:
                return
            first.matched = matched
            first.to_compute = first.input_tokens - first.cached_tokens
            self.totals.update(prompt_tokens=first.input_tokens, cached_tokens=first.cached_tokens)
            self._running.append(self._waiting.popleft())

    def _end(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        shared = sequence.matched if sequence.to_compute else len(sequence.keys)
        self._blocks.release(sequence.keys[:shared], sequence.blocks - shared)
