"""The compared contenders, and the servers behind them.

One listener on every address of this machine answers for all servers: 127/8 is
loopback, so each server has an address of its own.
"""

from pathlib import Path

from steelyard_protocol.weight_table import TablePeer

from steelyard_loadtest.machine import picker_list
from steelyard_loadtest.scenario.algorithms import Algorithm, with_those_of

COST = "cost"
"""A trial's scenario: the cost of a request."""

BASE = "nginx-swrr"
"""The base of every ratio, in the same run."""

_OURS = [
    Algorithm(
        name=f"resty-{picker.name}" if picker.library else picker.name,
        title=f"Steelyard {f'with {picker.library} ' if picker.library else ''}{picker.name}",
        program="steelyard", weights="true", method=picker.name,
    )
    for picker in picker_list.listed()
]  # fmt: skip
CONTENDERS = with_those_of(Path(__file__).with_suffix(".toml"), _OURS)
BY_NAME = {contender.name: contender for contender in CONTENDERS}

HEAVIEST = 10
STRIDE = 7
"""Prime to HEAVIEST: any ten neighbours have all ten weights, and no two equal ones are adjacent."""


def peers(count: int, port: int) -> tuple[TablePeer, ...]:
    """Return that many servers with weights 1..10, at distinct loopback addresses; none at 127.0.*."""
    weights = [1 + STRIDE * number % HEAVIEST for number in range(count)]
    return tuple(
        TablePeer(
            id=f"server-{number:05}",
            address=f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}:{port}",
            weight=weight,
            baseline=weight,
            state="up",
        )
        for number, weight in enumerate(weights)
    )
