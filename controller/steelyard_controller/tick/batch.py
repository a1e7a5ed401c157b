"""The ticks of several upstreams at once: stepping their laws together costs a fraction. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from steelyard_controller.laws.blend import Due, StepResult, step_upstreams
from steelyard_controller.messages.inbox import RefusalChange
from steelyard_controller.tick.cycle import Cycle, Observed
from steelyard_controller.tick.outcome import Outcome

Done = TypeVar("Done")

# Some 30 ms of CPU. Larger batches are no cheaper, and delay the first tables.
MOST_PEERS = 1000


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
    laws stepped one by one, which takes longer; None: they stepped together.
    """

    def observe(cycle: Cycle) -> Observed:
        return cycle.observe(
            values, now_s=now_s, issued_at_ms=issued_at_ms, addresses=addresses.get(cycle.name, {})
        )

    def conclude(cycle: Cycle, observation: Observed | Exception) -> tuple[Outcome, list[RefusalChange]]:
        if isinstance(observation, Exception):
            raise observation
        result = stepped.get(cycle.name) or step([observation.due])[0]
        return cycle.conclude(observation, result, term=term, issued_at_ms=issued_at_ms), observation.refusals

    observed = [_or_error(observe, cycle) for cycle in cycles]
    both = zip(cycles, observed, strict=True)
    due = {cycle.name: observation.due for cycle, observation in both if isinstance(observation, Observed)}
    together = _or_error(step, list(due.values()))
    fault = None
    stepped: dict[str, StepResult] = {}
    if isinstance(together, Exception):
        if len(due) > 1:
            fault = f"{len(due)} upstreams step one by one, which takes longer: together {together!r}"
    else:
        stepped = dict(zip(due, together, strict=True))
    return [
        _or_error(conclude, cycle, observation) for cycle, observation in zip(cycles, observed, strict=True)
    ], fault


def _or_error(act: Callable[..., Done], *arguments: object) -> Done | Exception:
    try:
        return act(*arguments)
    except Exception as error:
        return error
