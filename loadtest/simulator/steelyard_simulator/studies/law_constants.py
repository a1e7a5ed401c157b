"""The default law with one constant or rule replaced, for the study `constants`.

A constant is an upper-case name in a module of the law, or a parameter. The modules are read, so a new one is
in the study by itself, halved and doubled. `OFF`, `INSTEAD` and `RULES` have better replacements for some.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws import steelyard
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.change_detection import TESTED_TICKS, TESTED_WINDOWS
from steelyard_controller.laws.steelyard.contrast import Known
from steelyard_controller.laws.steelyard.steelyard_parameters import (
    CHANGE_WINDOWS,
    FRESH_WINDOWS,
    RECENT_WINDOWS,
)

LAW = "steelyard"
MODULES: tuple[ModuleType, ...] = tuple(
    import_module(f"{steelyard.__name__}.{module.name}")
    for module in pkgutil.iter_modules(steelyard.__path__)
)
"""The modules of the law."""

NEVER, HARDLY = 1e9, 1e-9

OFF: Mapping[str, float] = MappingProxyType(
    {
        "RESTARTS_FADE_S": 0.001, "SMALLEST_FREE": 1.0, "REFUTED_POWER": 0.0, "OTHERS_PART": NEVER,
        "RISE_SIGMA": NEVER, "MOSTLY_OTHERS": 0.0, "SHORT_PART": NEVER, "PHASE_PART": HARDLY,
        "SMALLEST_DISPERSION": 0.0, "CHANCE_PART": 0.0,
        "FEWEST_REQUESTS": HARDLY, "LARGEST_STEP": 1.0, "BACKLOG_ADDED_MAX": 0.0,
        "BACKLOG_TAKEN_MAX": 0.0, "BUSY_SMOOTHING_PER_S": 1.0, "FAILURE_PRIOR": HARDLY,
        "FAILURE_POWER": 0.0, "UNUSUAL_DURATIONS": NEVER,
        "FULL": 2.0, "LEAST_OURS": HARDLY, "HALF_LOAD_PART_PER_S": 0.0, "HALF_LOAD_MIN": HARDLY,
        "COST_DOWN_PER_S": 0.0, "COST_UP_PER_S": 0.0, "MOST_NOT_OURS": 1.0 - HARDLY,
        "SLOW_START_LOAD": NEVER, "DUE_REQUESTS": 0.0, "MISSED_REQUESTS": NEVER,
        "n0": 0.1, "p0": 1e6, "eps": 0.0, "beta": 0.0001, "H": 0.0, "L": 1.0, "gamma": 1.0,
        "R0": 0.001, "phi": 0.0, "alpha": 1.0, "kappa": 1000.0, "m_min": 1e-6,
        "z_max": 20.0, "ramp": 0.0, "join_min": 0.01,
    }
)  # fmt: skip
"""The value of a constant that switches its rule off."""

INSTEAD: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "FREE_UP_TO_LOAD": (0.25, 0.75), "CALM_LOAD": (0.5, 0.95),
        # Each at the other one's value: one threshold for all peers.
        "h_hot": (4.5,), "h_cold": (3.0,),
    }
)  # fmt: skip
"""Values for constants whose half or double makes no sense."""

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("REQUESTS", "BUSY", "SECONDS", "FULL_SECONDS"), "the number of a column"),
        **dict.fromkeys(("RATE_SQUARED", "RATE_LOAD", "LOAD_SQUARED"), "the number of a column"),
        **dict.fromkeys(("NAN", "INDICATORS", "KEPT", "REMEMBERED"), "a name, and not a figure"),
        **dict.fromkeys(("SCHEMA", "PRESENTATION"), "a table, and not a figure"),
        **dict.fromkeys(("FADED", "SMALLEST_FIGURE"), "a bound against a division by 0"),
        **dict.fromkeys(("COST_MIN", "COST_MAX", "MAX_FIGURE", "MOST_PER_S"), "a bound against overflow"),
        **dict.fromkeys(("SMALLEST_SHOWN", "PRIOR_SHOWN", "PRIOR_IS_NEARLY_ALL"), "only in a sentence"),
        "NEARLY_FULL": "only in a sentence",
        **dict.fromkeys(("OLDEST_TICKS", "RING", "RECENT_WINDOWS"), "the size of the memory"),
        **dict.fromkeys(("CHANGE_WINDOWS", "FRESH_WINDOWS"), "has rows of its own: `_rules`"),
        **dict.fromkeys(("CHANGE_TESTS", "TESTED_WINDOWS", "WINDOWS_AFTER"), "follows from CHANGE_WINDOWS"),
        **dict.fromkeys(("TESTED_TICKS", "HAS_LATER_WINDOW", "WINDOW_AGES"), "follows from CHANGE_WINDOWS"),
        "RESTART_WINDOWS": "follows from FRESH_WINDOWS",
        "WINDOW_S": "the clusters tick once a second",
        "YOUNGER_WINDOWS": "no cluster reports how long a server is up: law case `another_server`",
        "knee_mem": "the model's memory is constant: test_law_indicators",
        **dict.fromkeys(("S", "SHARED_S"), "the scale of the weights"),
    }
)
"""Upper-case names and parameters that are not in the study, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the law.

    of, value, instead   the constant or rule, its value, and the replacement, as texts
    names                replacements by their names in the law's modules
    parameters           replacements by the names of parameters
    """

    of: str
    value: str
    instead: str
    names: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)


def constants() -> dict[str, Any]:
    """Return the values of all upper-case names in the modules of the law."""
    return {
        name: value for module in MODULES for name, value in vars(module).items() if name.strip("_").isupper()
    }


def parameters() -> dict[str, float]:
    """Return the parameters of the law with their defaults."""
    return {each.name: each.default for each in laws.parameters_of(LAW)}


def changes() -> tuple[Change, ...]:
    """Return all changes: those of constants, of parameters, and of rules."""
    found = {name: value for name, value in constants().items() if name not in LEFT_OUT}
    numbers = {name: value for name, value in found.items() if isinstance(value, int | float)}
    named = (
        Change(of=name, value=f"{value:g}", instead=text, names={name: other})
        for name, value in numbers.items()
        for other, text in _instead(name, value)
    )
    declared = {name: value for name, value in parameters().items() if name not in LEFT_OUT}
    bound = (
        Change(of=name, value=f"{value:g}", instead=text, parameters={name: other})
        for name, value in declared.items()
        for other, text in _instead(name, value)
    )
    return (*named, *bound, *_rules())


def _instead(name: str, value: float) -> list[tuple[float, str]]:
    if name in OFF:
        return [(OFF[name], "off")]
    return [(other, f"{other:g}") for other in INSTEAD.get(name, (value / 2, 2 * value))]


def _rules() -> Iterator[Change]:
    for windows in CHANGE_WINDOWS:
        yield Change(
            of="CHANGE_WINDOWS", value=", ".join(map(str, CHANGE_WINDOWS)), instead=f"without {windows}",
            names={"TESTED_TICKS": np.where(windows == TESTED_WINDOWS, NEVER, TESTED_TICKS)},
        )  # fmt: skip
    for fresh in (1, RECENT_WINDOWS):
        yield Change(
            of="FRESH_WINDOWS", value=str(FRESH_WINDOWS), instead=str(fresh),
            names={"RESTART_WINDOWS": np.minimum(TESTED_TICKS, fresh)[:, 0, 0]},
        )  # fmt: skip
    for rule, names in RULES.items():
        yield Change(of=rule, value="rule", instead="off", names=names)


def _no_peer_is_relieved(
    _inputs: object, _own: object, _window: object, _sums: object, cost: Floats
) -> Bools:
    return np.zeros(cost.shape, dtype=np.bool_)


def _no_peer_is_inferred(_inputs: object, busyness: Any, _traffic: object) -> Bools:  # noqa: ANN401
    return np.zeros(busyness.sampled.shape, dtype=np.bool_)


def _no_waiting_load(*of: Any) -> Floats:  # noqa: ANN401
    return np.zeros_like(of[2])


def _as_found(known: Known, _sums: object, _seen: object, _tick_s: float) -> Known:
    return known


RULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "_is_relieved": {"_is_relieved": _no_peer_is_relieved},
        "_is_inferred": {"_is_inferred": _no_peer_is_inferred},
        "with_findings_kept": {"with_findings_kept": _as_found},
        "_waiting_load": {"_waiting_load": _no_waiting_load},
        "_information": {"_information": np.ones_like},
        "contrast": {"CHANCE_PART": NEVER},
    }
)
"""Rules that no constant switches off, and what is replaced without them."""


@contextmanager
def replaced(names: Mapping[str, Any]) -> Iterator[None]:
    """Replace values in all modules of the law that use these names. Raises ValueError for an unknown one."""
    before = [
        (module, name, vars(module)[name]) for module in MODULES for name in names if name in vars(module)
    ]
    unknown = names.keys() - {name for _, name, _ in before}
    if unknown:
        raise ValueError(f"no module of the law has the name {min(unknown)}")
    for module, name, _ in before:
        setattr(module, name, names[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
