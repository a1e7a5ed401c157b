"""Chooses the means that holds the server's CPU limit, and says which it is."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from steelyard_loadtest.server import cgroup

MEANS = ("auto", "cgroup", "process", "none")
LOWEST_CORES = 0.05  # a cgroup's quota of 1 ms in 20 ms


class LimitError(Exception):
    """The wanted means does not work here; the message says why and what does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A limit that is in force: a sentence about it, and how to give it up."""

    sentence: str
    release: Callable[[], None]


def hold(*, limit_cores: float | None, means: str, group: str) -> Held:
    """Hold this process and its children to limit_cores by one of MEANS.

    `group` names the control group, where one is used. Raises LimitError.
    """
    if limit_cores is None or means == "none":
        return Held(sentence="CPU not limited", release=_nothing)
    said = f"CPU limited to {limit_cores:g} cores by"
    if means == "process":
        return _hold_by_signals(limit_cores, said)
    try:
        entered = cgroup.enter(group, limit_cores)
    except cgroup.CgroupUnavailableError as error:
        if means == "cgroup":
            raise LimitError(f"no CPU limit by cgroup: {error}; use --limit-by process") from error
        return _hold_by_signals(limit_cores, f"{said} (no cgroup: {error})")
    sentence = f"{said} cgroup {entered.directory} (v{entered.version})"
    return Held(sentence=sentence, release=entered.leave)


def _hold_by_signals(limit_cores: float, said: str) -> Held:
    command = [sys.executable, "-m", "steelyard_loadtest.server.throttle", str(os.getpid()), str(limit_cores)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise LimitError("the throttle did not start (its error is above); it needs Linux 5.3 or newer")
    return Held(sentence=f"{said} stop and continue signals", release=_nothing)  # it ends with this process


def _nothing() -> None:
    pass
