"""The same weight tables to Python and to LuaJIT: what one takes the other takes, and reads alike."""

import time
from collections import Counter
from random import Random

from steelyard_loadtest.fuzz import agreement
from steelyard_loadtest.fuzz.draw import an_input
from steelyard_loadtest.fuzz.lua import Judge
from steelyard_loadtest.fuzz.model import Tally, Target, Violation, ViolationError, outcome_of

METHOD = "Python and Lua"

MOST_VIOLATIONS = 5


def run(target: Target, *, seconds: float, seed: int) -> Tally:
    """Feed both for so long; raise ProgramError when LuaJIT ends."""
    random, outcomes, harmless = Random(seed), Counter[str](), Counter[str]()
    violations: list[Violation] = []
    deadline, tried, reasons = time.monotonic() + seconds, 0, 0
    with Judge() as judge:
        while time.monotonic() < deadline and len(violations) < MOST_VIOLATIONS:
            data = an_input(random, target)
            tried += 1
            said = judge("weight-table", data)
            if "broken" in said:
                violations.append(Violation(what=f"Lua: {said['broken']}", input=data))
                continue
            try:
                python = outcome_of(target, data)
            except ViolationError as error:
                violations.append(Violation(what=f"Python: {error}", input=data))
                continue
            outcomes[said["outcome"]] += 1
            what = agreement.difference(data, said)
            if what is None:
                reasons += python != said["outcome"]
                continue
            why = agreement.known(data, said, lambda mended: judge("weight-table", mended))
            if why is None:
                violations.append(Violation(what=what, input=data))
            else:
                harmless[why] += 1
    notes = [f"{count} x {why}" for why, count in harmless.most_common()]
    if reasons:
        notes.append(f"{reasons} refused by both for different reasons")
    return Tally(
        target="weight-table, both",
        method=METHOD,
        about="what one takes the other takes, and reads alike",
        tried=tried,
        outcomes=dict(outcomes),
        notes=tuple(notes),
        violations=tuple(violations),
    )
