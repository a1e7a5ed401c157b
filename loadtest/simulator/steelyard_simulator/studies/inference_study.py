"""64 inference engines behind 8 load balancers: the lab's model of an engine, nginx's pickers. Pure.

Half of the engines are twice as large, and the load balancers know it; no law runs. Requests go to random
load balancers, each with its own memory of keys. Pickers learn the time to the first token.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from steelyard_loadtest.inference.arrivals import Arrival
from steelyard_loadtest.inference.blocks import BLOCK_TOKENS
from steelyard_loadtest.inference.engine import Engine, Sequence
from steelyard_loadtest.inference.figures import GOOD_TTFT_S

from steelyard_simulator import engine as simulated
from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, Server, Work
from steelyard_simulator.pickers.lmetric import LMetric
from steelyard_simulator.pickers.lua_pickers import LuaPicker, LuaRuntime

SIZES, BALANCERS = (1, 2) * 32, 8
EXCHANGE_S = 0.02
ANSWER_COST = 4 * 343
"""Assumed cost of an answer that is not there yet: four times the tokens of Mooncake's mean."""

LMETRIC = "LMetric"

PRICED = Balancing(law=None, priced=True)
CONTENDERS = {
    "round robin": Balancing(law=None, picker="vnswrr"),
    "least_conn": Balancing(law=None, picker="least_conn"),
    "bounded hash": Balancing(law=None, picker="bounded_hash"),
    LMETRIC: Balancing(law=None, picker="lmetric"),
    "**Steelyard, no keys**": PRICED,
    "**Steelyard, prefix keys**": replace(PRICED, picker="bounded_hash"),
}
"""All but LMetric run in nginx's own Lua. With known costs, they also exchange requests in flight and
remember keys."""

HEAD = ("", "TTFT p50, s", "TTFT p99, s", "good/s", "hits, %")


def _balancers(balancing: Balancing, loop: simulated.Engine) -> Iterator[Any]:
    """Make the load balancers' pickers, and start the exchange of requests in flight if they take part."""
    exchange_s = EXCHANGE_S if balancing.priced else 0.0
    case = Case(
        servers=(Server(),) * len(SIZES), clients=OpenClients(rate_per_s=1.0), duration_s=1.0,
        work=Work(cpu=Draw(mean_s=1.0)), balancing=balancing, balancers=BALANCERS, exchange_s=exchange_s,
    )  # fmt: skip
    runtime = LuaRuntime(case, 1)
    for _ in range(BALANCERS):
        picker = LuaPicker(case, runtime)
        picker.update(SIZES)
        if exchange_s:
            loop.at(0.0, _exchange, (loop, picker))
        yield picker


def _exchange(now_s: float, of: tuple[simulated.Engine, LuaPicker]) -> None:
    loop, picker = of
    picker.exchange(now_s)
    loop.at(now_s + EXCHANGE_S, _exchange, of)


def figures(name: str, arrivals: list[Arrival]) -> list[str]:
    """Run a contender; return its row, for arrivals in the last two thirds without the last five seconds."""
    balancing, random, loop = CONTENDERS[name], Random(1), simulated.Engine()
    engines, busy = [Engine(size=size) for size in SIZES], [False] * len(SIZES)
    pickers: list[Any] = (
        [LMetric(engines, Random(1))] if name == LMETRIC else list(_balancers(balancing, loop))
    )
    end_s = arrivals[-1].at_s
    sent, waited_s = dict[Sequence, tuple[Any, float]](), dict[Sequence, float]()

    def step(now_s: float, engine: int) -> None:
        took_s, got = engines[engine].step()
        busy[engine] = took_s > 0
        if took_s:
            loop.at(now_s + took_s, tokens, (engine, got))

    def tokens(now_s: float, of: tuple[int, list[Sequence]]) -> None:
        engine, got = of
        for one in got:
            picker, at_s = sent[one]
            first_s = at_s + waited_s.setdefault(one, now_s - at_s)
            if one.ended and name != LMETRIC:
                picker.answered(engine, at_s, now_s, True, first_s)
        step(now_s, engine)

    def arrive(now_s: float, one: Arrival) -> None:
        picker, keys = random.choice(pickers), one.block_ids[: one.input_tokens // BLOCK_TOKENS]
        cost = one.input_tokens + ANSWER_COST if balancing.priced else None
        if name == LMETRIC:
            engine = picker.pick(keys, one.input_tokens)
        else:
            engine = picker.pick(now_s, cost, str(one.prefix))
        sequence = Sequence(keys=keys, input_tokens=one.input_tokens, output_tokens=one.output_tokens)
        engines[engine].add(sequence)
        sent[sequence] = picker, now_s
        if not busy[engine]:
            step(now_s, engine)

    for one in arrivals:
        loop.at(one.at_s, arrive, one)
    begin_s, last_s = end_s / 3, end_s - GOOD_TTFT_S
    loop.run(begin_s)
    before = _totals(engines)
    loop.run(end_s)
    cached, prompts = _totals(engines) - before
    # A request without a token has waited at least until the end.
    ttft = [waited_s.get(one, end_s - at_s) for one, (_, at_s) in sent.items() if begin_s <= at_s < last_s]
    p50, p99 = np.percentile(ttft, (50, 99))
    good = sum(each <= GOOD_TTFT_S for each in ttft) / (last_s - begin_s)
    return [name, f"{p50:.2f}", f"{p99:.2f}", f"{good:.1f}", f"{100 * cached / prompts:.1f}"]


def _totals(engines: list[Engine]) -> Any:  # noqa: ANN401 - an array
    return np.sum([[one.totals["cached_tokens"], one.totals["prompt_tokens"]] for one in engines], axis=0)
