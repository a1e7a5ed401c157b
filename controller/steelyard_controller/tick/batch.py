"""The ticks of several upstreams at once: stepping their laws together costs a fraction. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from steelyard_controller.laws.blend import Due, StepResult, step_upstreams
from steelyard_controller.messages.inbox import RefusalChange
from steelyard_controller.tick.cycle import Cycle, Observed
from steelyard_controller.tick.outcome import Outcome

Done = TypeVar("Done")

# The upstreams of one size step at once, and starting numpy takes a fifth of the step for a thousand servers
# of ten sizes, a twentieth for eight thousand. Larger batches delay the first tables for nothing.
MOST_PEERS = 4000


def batches(cycles: Sequence[Cycle], most: int = MOST_PEERS) -> Iterator[list[Cycle]]:
    """Yield the upstreams by their number of servers, in batches of at most `most`, or of one upstream."""
    batch: list[Cycle] = []
    left = most
    for cycle in sorted(cycles, key=lambda each: each.size):
        if batch and cycle.size > left:
            yield batch
            batch, left = [], most
        batch.append(cycle)
        left -= cycle.size
    if batch:
        yield batch


def advance(
    cycles: Sequence[Cycle],
    values: Mapping[str, bytes] | None,
    *,
    now_s: float,
    term: int,
    issued_at_ms: int,
    addresses: Mapping[str, Mapping[str, str]],
    step: Callable[[Sequence[Due]], list[StepResult]] = step_upstreams,
) -> tuple[list[tuple[Outcome, list[RefusalChange]] | Exception], str | None]:
    """Do one tick of each upstream, whose laws step by `step`; a failure of one stops no other.

    Returns the outcome and log lines of each upstream, or its exception. The text beside it says why the
    laws stepped in parts, which takes longer; None: they stepped together.
    """

    def observe(cycle: Cycle) -> Observed:
        return cycle.observe(
            values, now_s=now_s, issued_at_ms=issued_at_ms, addresses=addresses.get(cycle.name, {})
        )

    def conclude(cycle: Cycle, observation: Observed | Exception) -> tuple[Outcome, list[RefusalChange]]:
        if isinstance(observation, Exception):
            raise observation
        result = stepped[cycle.name]
        if isinstance(result, Exception):
            raise result
        return cycle.conclude(observation, result, term=term, issued_at_ms=issued_at_ms), observation.refusals

    observed = [_or_error(observe, cycle) for cycle in cycles]
    both = zip(cycles, observed, strict=True)
    due = {cycle.name: observation.due for cycle, observation in both if isinstance(observation, Observed)}
    results, error = _stepped(list(due.values()), step)
    stepped = dict(zip(due, results, strict=True))
    fault = None
    if error is not None and len(due) > 1:
        fault = f"{len(due)} upstreams step in parts, which takes longer: together {error!r}"
    return [
        _or_error(conclude, cycle, observation) for cycle, observation in zip(cycles, observed, strict=True)
    ], fault


def _stepped(
    due: Sequence[Due], step: Callable[[Sequence[Due]], list[StepResult]]
) -> tuple[Sequence[StepResult | Exception], Exception | None]:
    """Return the result of each upstream or its exception, and why they could not step together.

    After a failure each half steps by itself, down to the upstream that fails. So one among a thousand costs
    three steps of all, and not a thousand single ones.
    """
    together = _or_error(step, due)
    if not isinstance(together, Exception):
        return together, None
    if len(due) <= 1:
        return [together] * len(due), together
    half = len(due) // 2
    return [*_stepped(due[:half], step)[0], *_stepped(due[half:], step)[0]], together


def _or_error(act: Callable[..., Done], *arguments: object) -> Done | Exception:
    try:
        return act(*arguments)
    except Exception as error:
        return error
