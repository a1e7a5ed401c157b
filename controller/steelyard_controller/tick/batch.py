"""The ticks of several upstreams at once: reading and stepping them together costs a fraction. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from steelyard_controller.laws.blend import Due, StepResult, step_upstreams
from steelyard_controller.messages.inbox import RefusalChange
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.observation import observe
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.stages import Begun, Observed

Done = TypeVar("Done")
Part = TypeVar("Part")

# The upstreams of one size step at once. With 2,000 upstreams of 1 to 30 servers, the laws take 1.2 times the
# CPU in batches of 1,000 servers. In batches of 8,000, they take a tenth less, but 20 to 40 MB more, and the
# first tables come later.
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
    upstreams were read or stepped in parts, which takes longer; None: all of them at once.
    """

    def begin(cycle: Cycle) -> Begun:
        return cycle.observe(
            values, now_s=now_s, issued_at_ms=issued_at_ms, addresses=addresses.get(cycle.name, {})
        )

    def conclude(cycle: Cycle, observation: Observed | Exception) -> tuple[Outcome, list[RefusalChange]]:
        if isinstance(observation, Exception):
            raise observation
        result = stepped[cycle.name]
        if isinstance(result, Exception):
            raise result
        outcome = cycle.conclude(observation, result, now_s=now_s, term=term, issued_at_ms=issued_at_ms)
        return outcome, observation.refusals

    begun = [_or_error(begin, cycle) for cycle in cycles]
    both = zip(cycles, begun, strict=True)
    ready = [(cycle, each) for cycle, each in both if not isinstance(each, Exception)]
    taken, not_read = _in_parts(ready, lambda some: observe(some, now_s))
    results = iter(taken)
    observed = [each if isinstance(each, Exception) else next(results) for each in begun]
    due = {
        cycle.name: observation.due
        for cycle, observation in zip(cycles, observed, strict=True)
        if isinstance(observation, Observed)
    }
    decided, not_stepped = _in_parts(list(due.values()), step)
    stepped = dict(zip(due, decided, strict=True))
    fault = None
    if not_read is not None and len(ready) > 1:
        fault = f"{len(ready)} upstreams are read in parts, which takes longer: together {not_read!r}"
    elif not_stepped is not None and len(due) > 1:
        fault = f"{len(due)} upstreams step in parts, which takes longer: together {not_stepped!r}"
    return [
        _or_error(conclude, cycle, observation) for cycle, observation in zip(cycles, observed, strict=True)
    ], fault


def _in_parts(
    upstreams: Sequence[Part], act: Callable[[Sequence[Part]], Sequence[Done]]
) -> tuple[Sequence[Done | Exception], Exception | None]:
    """Return the result of each upstream or its exception, and why they could not act together.

    After a failure each half acts by itself, down to the upstream that fails. So one among a thousand costs
    three times as much, and not a thousand single acts.
    """
    together = _or_error(act, upstreams)
    if not isinstance(together, Exception):
        return together, None
    if len(upstreams) <= 1:
        return [together] * len(upstreams), together
    half = len(upstreams) // 2
    return [*_in_parts(upstreams[:half], act)[0], *_in_parts(upstreams[half:], act)[0]], together


def _or_error(act: Callable[..., Done], *arguments: object) -> Done | Exception:
    try:
        return act(*arguments)
    except Exception as error:
        return error
