"""Requests and their times: a recorded trace, or a generator fitted to one; and the part that makes a load.

Pure. Times are seconds of the trace. A recorded trace is Mooncake's (JSON lines: `timestamp` in ms,
`input_length`, `output_length`, `hash_ids`), or Azure's (CSV: TIMESTAMP, ContextTokens, GeneratedTokens).
Azure's has no prefixes, so no two of its prompts share one.

The generator has Mooncake's hour of conversations as quantiles, and interpolates logarithms between them.
Conversations begin at random. Each continues after its k-th turn with probability GOES_ON[k] and after a
while, keeps a part of its text, and adds to it. Every prompt begins with the same block.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate, count, groupby, takewhile
from random import Random

import numpy as np

from steelyard_loadtest.inference.blocks import BLOCK_TOKENS
from steelyard_loadtest.inference.engine import cost_s

CHARACTERS_PER_TOKEN = 4

QUANTILE_PARTS = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
FIRST_TOKENS = (512, 897, 905, 1336, 5264, 13056, 25561, 38538, 89869, 126195)
ADDED_TOKENS = (64, 163, 304, 534, 829, 3503, 9741, 14768, 26773, 60000)
KEPT_PART = (0.05, 0.14, 0.36, 0.75, 0.92, 0.96, 0.98, 0.99, 1.0, 1.0)
PAUSE_S = (24, 30, 42, 66, 123, 264, 483, 618, 1482, 3000)
OUTPUT_TOKENS = (1, 9, 24, 156, 350, 472, 597, 742, 1120, 2000)
"""Quantiles of the trace, at the parts QUANTILE_PARTS."""

GOES_ON = (0.31, 0.42, 0.51, 0.59)
"""After the first turn, the second ...; the last value is for all others."""

NEW_PER_S = 12_031 * 0.613 / 3600
"""Conversations that begin in a second; the rest of the hour's requests are later turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request. block_ids: of its input's blocks; the last block may be incomplete."""

    at_s: float
    input_tokens: int
    output_tokens: int
    block_ids: tuple[int, ...]

    @property
    def prompt(self) -> str:
        """Return a text of this many tokens in which equal blocks are equal."""
        text = "".join(
            f"{block:08x}" * (BLOCK_TOKENS * CHARACTERS_PER_TOKEN // 8) for block in self.block_ids
        )
        return text[: self.input_tokens * CHARACTERS_PER_TOKEN]

    @property
    def prefix(self) -> int:
        """Return the common part of two prompts with the same first two blocks: the second's id."""
        return self.block_ids[min(1, len(self.block_ids) - 1)]


def read(lines: Iterable[str]) -> list[Arrival]:
    """Return a trace's requests in their order. Raises ValueError, which names what is missing."""
    text = list(lines)
    try:
        arrivals = _mooncake(text) if text and text[0].startswith("{") else _azure(text)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a trace is Mooncake's JSON lines or Azure's CSV: {error!r}") from None
    if not arrivals:
        raise ValueError("a trace needs at least one request")
    return arrivals


def _mooncake(lines: Sequence[str]) -> list[Arrival]:
    rows = [json.loads(line) for line in lines if line.strip()]
    arrivals = list[Arrival]()
    # Its clock ticks once in three seconds: requests of one tick are spread over the time to the next.
    ticks = [(at_ms, list(group)) for at_ms, group in groupby(rows, lambda row: row["timestamp"])]
    for (at_ms, group), (next_ms, _) in zip(ticks, [*ticks[1:], (ticks[-1][0] + 3000, [])], strict=True):
        for place, row in enumerate(group):
            arrivals.append(
                Arrival(
                    at_s=(at_ms + (next_ms - at_ms) * place / len(group)) / 1000,
                    input_tokens=row["input_length"],
                    output_tokens=max(row["output_length"], 1),
                    block_ids=tuple(row["hash_ids"]),
                )
            )
    return arrivals


def _azure(lines: Sequence[str]) -> list[Arrival]:
    new, arrivals = count(1), list[Arrival]()
    for row in csv.DictReader(lines):
        # Seven digits after the point are one more than Python's.
        at_s = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
        tokens = max(int(row["ContextTokens"]), 1)
        ids = tuple(next(new) for _ in range(-(-tokens // BLOCK_TOKENS)))
        output = max(int(row["GeneratedTokens"]), 1)
        arrivals.append(Arrival(at_s=at_s, input_tokens=tokens, output_tokens=output, block_ids=ids))
    return arrivals


def generated(random: Random, number: int) -> list[Arrival]:
    """Return this many requests, without a first half hour, in which there are few later turns."""
    new, arrivals, start_s, begin_s = count(1), list[Arrival](), 1800.0, 0.0
    while begin_s < start_s + 1.3 * number * 0.613 / NEW_PER_S:
        begin_s += random.expovariate(NEW_PER_S)
        arrivals += _conversation(random, new, begin_s)
    arrivals = sorted((one for one in arrivals if one.at_s >= start_s), key=lambda one: one.at_s)
    return arrivals[:number]


def _conversation(random: Random, new: Iterator[int], at_s: float) -> Iterator[Arrival]:
    tokens, ids, turn = round(_drawn(random, FIRST_TOKENS)), [0], 0
    while True:
        tokens = min(max(tokens, BLOCK_TOKENS), FIRST_TOKENS[-1])
        ids = [*ids, *(next(new) for _ in range(-(-tokens // BLOCK_TOKENS) - len(ids)))]
        output = round(_drawn(random, OUTPUT_TOKENS))
        yield Arrival(at_s=at_s, input_tokens=tokens, output_tokens=output, block_ids=tuple(ids))
        if random.random() > GOES_ON[min(turn, len(GOES_ON) - 1)]:
            return
        turn, at_s = turn + 1, at_s + _drawn(random, PAUSE_S)
        # Only whole blocks can be the same.
        ids = ids[: max(1, min(round(len(ids) * _drawn(random, KEPT_PART)), tokens // BLOCK_TOKENS))]
        tokens = len(ids) * BLOCK_TOKENS + round(_drawn(random, ADDED_TOKENS))


def _drawn(random: Random, quantiles: Sequence[float]) -> float:
    return math.exp(np.interp(random.random(), QUANTILE_PARTS, np.log(quantiles)))


def loaded(arrivals: Sequence[Arrival], *, load: float, size: float, seconds: float) -> list[Arrival]:
    """Return the first requests, faster or slower than recorded, so that they last about this many seconds.

    load: their cost without any cache, as a part of the capacity of engines of this size together. Raises
    ValueError if there are too few.
    """
    costs_s = accumulate(cost_s(one.input_tokens, one.output_tokens) / (load * size) for one in arrivals)
    ends_s = list(takewhile(lambda end_s: end_s <= seconds, costs_s))
    if not ends_s or (len(ends_s) == len(arrivals) and ends_s[-1] < 0.9 * seconds):
        offer = f"{len(arrivals)} requests are a load of {load:g} for {ends_s[-1] if ends_s else 0:.0f} s"
        raise ValueError(f"{offer}, not for {seconds:.0f} s: take a longer trace")
    first_s, last_s = arrivals[0].at_s, arrivals[len(ends_s) - 1].at_s
    factor = ends_s[-1] / max(last_s - first_s, 1e-9)
    return [replace(one, at_s=(one.at_s - first_s) * factor) for one in arrivals[: len(ends_s)]]
