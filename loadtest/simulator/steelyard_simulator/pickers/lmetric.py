"""LMetric, for comparison: inference engines by the product of two indicators.

Pure but for the generator passed in. Source: D. Zhang et al., *LMetric: Simple is Better - Multiplication
May Be All You Need for LLM Request Scheduling* (arXiv 2603.15202), of which the abstract could be read.
Published there: the engine with the least score, and no parameter to tune.

    score = P B
    P     prompt tokens that the engine would have to compute anew if the request came to it
    B     its current batch size

The abstract leaves three things open. P is taken to include the tokens that wait at the engine already,
because they delay the request. B counts running and waiting requests. Ties, as among engines without any
request, go to the least P, then by chance. Engines report both indicators without a delay, to every load
balancer.

The paper's engines are alike. In the study half are twice as large, and all contenders know it. So P and B
count per size of the engine.
"""

from collections.abc import Sequence
from random import Random

from steelyard_loadtest.inference.blocks import BLOCK_TOKENS
from steelyard_loadtest.inference.engine import Engine


class LMetric:
    """The choice of an engine for a prompt; all load balancers see the same engines."""

    def __init__(self, engines: Sequence[Engine], random: Random) -> None:
        self._engines, self._random = engines, random

    def pick(self, keys: tuple[int, ...], input_tokens: int) -> int:
        """Return the engine's place."""
        scores = [self._score(engine, keys, input_tokens) for engine in self._engines]
        least = min(scores)
        return self._random.choice([place for place, score in enumerate(scores) if score == least])

    @staticmethod
    def _score(engine: Engine, keys: tuple[int, ...], input_tokens: int) -> tuple[float, float]:
        new = input_tokens - min(engine.blocks.matched(keys) * BLOCK_TOKENS, input_tokens - 1)
        tokens = (new + engine.queued_tokens) / engine.size
        batch = (len(engine.running) + len(engine.waiting)) / engine.size
        return tokens * batch, tokens
