"""The ticks of several upstreams at once: together, the laws' steps cost a fraction. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from steelyard_controller.laws.blend import StepResult, step_upstreams
from steelyard_controller.tick.cycle import Cycle, Observed
from steelyard_controller.tick.outcome import Outcome

Done = TypeVar("Done")

# Some 30 ms of CPU. More at once is no cheaper, and the first tables would come later.
MOST_PEERS = 1000


def batches(cycles: Sequence[Cycle], most: int = MOST_PEERS) -> Iterator[list[Cycle]]:
    """Return the upstreams by the number of their servers, in batches of at most `most`, or of one."""
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
    found: Mapping[str, bytes] | None,
    *,
    now_s: float,
    term: int,
    issued_at_ms: int,
    addresses: Mapping[str, Mapping[str, str]],
) -> list[tuple[Outcome, list[str]] | Exception]:
    """Do one tick of each upstream, as `Cycle.advance`; one that fails has its exception."""

    def observe(cycle: Cycle) -> Observed:
        return cycle.observe(
            found, now_s=now_s, issued_at_ms=issued_at_ms, addresses=addresses.get(cycle.name, {})
        )

    def conclude(cycle: Cycle, seen: Observed | Exception) -> tuple[Outcome, list[str]]:
        if isinstance(seen, Exception):
            raise seen
        result = stepped.get(cycle.name) or step_upstreams([seen.due])[0]
        return cycle.conclude(seen, result, term=term, issued_at_ms=issued_at_ms), seen.lines

    observed = [_or_error(observe, cycle) for cycle in cycles]
    stepped = _stepped({cycle.name: seen for cycle, seen in zip(cycles, observed, strict=True)})
    return [_or_error(conclude, cycle, seen) for cycle, seen in zip(cycles, observed, strict=True)]


def _stepped(observed: Mapping[str, Observed | Exception]) -> dict[str, StepResult]:
    """Return the laws' results by upstream; nothing where one of them fails: each then steps alone."""
    due = {name: seen.due for name, seen in observed.items() if isinstance(seen, Observed)}
    try:
        return dict(zip(due, step_upstreams(list(due.values())), strict=True))
    except Exception:
        # Each upstream meets its own again below.
        return {}


def _or_error(act: Callable[..., Done], *arguments: object) -> Done | Exception:
    try:
        return act(*arguments)
    except Exception as error:
        return error
