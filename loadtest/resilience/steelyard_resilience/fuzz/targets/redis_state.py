"""State in Redis, possibly damaged by a person or a fault."""

import json
from dataclasses import replace

import numpy as np
from steelyard_controller import laws
from steelyard_controller.cli import replay_lines
from steelyard_controller.declarations import declaration
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_controller.store import lease, saved_state
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import NewerVersion, SavedState
from steelyard_controller.tick import history_moment

from steelyard_resilience.fuzz.target import ACCEPTED, Target, judge_of, require

DAMAGED = "damaged"


def targets() -> tuple[Target, ...]:
    """Return the decoders of the state."""
    memories = {name: _memory(name) for name in laws.NAMES}
    state = saved_state.encode(SavedState(term=3, generation=118, memories=memories))
    held = lease.encode(Lease(holder="one", boot="5f0c", url="http://10.0.0.5:8081", term=3)).encode()
    moments = b'{"at_ms":1790000000000,"ids":["a"]}\n{"at_ms":1790000001000}\n{"at_ms":1}'
    remembered = [*memories.values(), *(_memory(name, FIVE) for name in laws.NAMES)]
    texts = [json.dumps(memory).encode() for memory in remembered]
    declared = [declaration.encode(Declaration(upstream=upstream)) for upstream in UPSTREAMS]
    leader = judge_of(lease.decode, encode=lease.encode, reason=_damaged)
    upstream = judge_of(declaration.decode, encode=declaration.encode, reason=_damaged)
    return (
        Target("saved-state", "term and generation, in Redis", _state, (state,)),
        Target("law-memory", "a law's memory, in Redis, and the law's next step", _law_memory, texts),
        Target("lease", "the leader's lease, in Redis", leader, (held,)),
        Target("declaration", "an upstream as declared, in Redis", upstream, declared),
        Target("history", "the moments, in Redis", _history, (moments,)),
    )


def _damaged(decoded: object) -> str | None:
    require(decoded != "", "the refusal has no reason")
    return DAMAGED if decoded is None or isinstance(decoded, str) else None


UPSTREAMS = (
    Upstream(),
    Upstream.model_validate(
        {
            "parameters": {"H": 0.3}, "shadows": {"paper": {}}, "blend": {"law": "cswrr", "percent": 10},
            "check": {"path": "/healthz", "statuses": [200, 204]}, "hash_key": "header:X-User",
            "indicators": {"cpu": {}, "workers": {"knee": 0.5}},
            "peers": [
                {"id": "server-1", "address": "10.0.0.11:80", "baseline": 1, "pin": 10},
                {"id": "server-2", "address": "web-2.example:80", "state": "drain"},
            ],
        }
    ),
)  # fmt: skip

REPLAY = (
    b'{"t_s":10.0,"indicators":["cpu","net","io","mem"],"report_age_ticks":0,"peers":['
    b'{"id":"a","utilization":[0.9,0.1,null,0.3],"sample_age_ticks":0,"capacity":[4,125e6,5000,8e9],'
    b'"baseline":1,"completed":100,"failed":0,"in_flight":1,"latency_s":0.01},'
    b'{"id":"b","utilization":[0.3,0.1,0.1,0.3],"sample_age_ticks":0,"capacity":[4,125e6,5000,8e9],'
    b'"baseline":1,"completed":50,"failed":0,"in_flight":1,"latency_s":0.01}]}'
)
"""Two peers at a tick: a line of `steelyard replay`."""

SNAPSHOT = replay_lines.parse(REPLAY.decode())

FIVE = replace(
    SNAPSHOT,
    indicators=(*SNAPSHOT.indicators, "workers"),
    knees=np.append(SNAPSHOT.knees, 0.5),
    utilization=np.column_stack((SNAPSHOT.utilization, [0.7, np.nan])),
)
"""The same, with an application's own indicator."""


_LAWS = {name: laws.create(name) for name in laws.NAMES}


def _memory(name: str, snapshot: Snapshot = SNAPSHOT) -> dict[str, object]:
    law = _LAWS[name]
    memory, _ = law.step(law.start(), snapshot)
    return laws.encode_memory(name, memory)


def _state(data: bytes) -> str:
    try:
        state = saved_state.decode(data)
    except NewerVersion:
        return "newer"
    if state is None:
        return DAMAGED
    # Memories have their own decoders, and are never written unchanged.
    kept = SavedState(term=state.term, generation=state.generation, memories={})
    again = saved_state.decode(saved_state.encode(kept))
    require(again == kept, f"it differs after encoding and decoding: {again}")
    return ACCEPTED


def _law_memory(data: bytes) -> str:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return "not_json"
    accepted = 0
    for name, law in _LAWS.items():
        memory = laws.decode_memory(law, document)
        if memory is None:
            continue
        accepted += 1
        json.dumps(laws.encode_memory(name, memory), allow_nan=False)  # must not raise
        with np.errstate(all="ignore"):  # only the result counts
            after, decision = law.step(memory, SNAPSHOT)
        above_0 = np.isfinite(decision.weights).all() and (decision.weights > 0).all()
        require(above_0, "a weight is not a number above 0")
        text = json.dumps(laws.encode_memory(name, after), allow_nan=False)
        kept = laws.decode_memory(law, json.loads(text))
        require(kept is not None, "the law's next memory could not be read again")
    return ACCEPTED if accepted else DAMAGED


def _history(data: bytes) -> str:
    lines = data.split(b"\n")
    kept = history_moment.thinned(lines, step_s=1.0)
    require(set(kept) <= set(lines), "it added a moment")
    return ACCEPTED if kept else DAMAGED
