"""What lies in Redis, which an older version, a person or a fault may have left there."""

import json
from collections.abc import Callable

import numpy as np
from steelyard_controller import laws
from steelyard_controller.declared import declaration
from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.snapshot import Snapshot
from steelyard_controller.state import lease, moment, saved
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.saved import Newer, Saved

from steelyard_loadtest.fuzz.model import ACCEPTED, Target, require

DAMAGED = "damaged"


def targets() -> tuple[Target, ...]:
    """Return the decoders of the state."""
    memories = {name: _memory(name) for name in laws.NAMES}
    state = saved.encode(Saved(term=3, generation=118, memories=memories))
    held = lease.encode(Lease(holder="one", boot="5f0c", url="http://10.0.0.5:8081", term=3)).encode()
    moments = b'{"at_ms":1790000000000,"ids":["a"]}\n{"at_ms":1790000001000}\n{"at_ms":1}'
    about = ", in Redis"
    return (
        Target(
            name="saved-state", about="term and generation" + about, form="json", seeds=(state,), judge=_state
        ),
        Target(
            name="law-memory",
            about="what a law remembers" + about + "; the law then takes a step",
            form="json",
            seeds=tuple(json.dumps(memory).encode() for memory in memories.values()),
            judge=_law_memory(),
        ),
        Target(name="lease", about="who leads" + about, form="json", seeds=(held,), judge=_lease),
        Target(
            name="declaration",
            about="an upstream as declared" + about,
            form="json",
            seeds=tuple(declaration.encode(Declaration(upstream=upstream)) for upstream in UPSTREAMS),
            judge=_declaration,
        ),
        Target(name="history", about="the moments" + about, form="text", seeds=(moments,), judge=_history),
    )


UPSTREAMS = (
    Upstream(),
    Upstream.model_validate(
        {
            "parameters": {"H": 0.3},
            "shadows": {"paper": {}},
            "blend": {"law": "cswrr", "percent": 10},
            "check": {"path": "/healthz", "statuses": [200, 204]},
            "hash_key": "header:X-User",
            "peers": [
                {"id": "server-1", "address": "10.0.0.11:80", "baseline": 1, "pin": 10},
                {"id": "server-2", "address": "web-2.example:80", "state": "drain"},
            ],
        }
    ),
)


def snapshot() -> Snapshot:
    """Return two peers as a tick sees them."""
    return Snapshot(
        t_s=10.0,
        tick_s=1.0,
        ids=("a", "b"),
        utilization=np.array([[0.9, 0.1, 0.1, 0.3], [0.3, 0.1, 0.1, 0.3]]),
        sample_age_ticks=np.zeros(2, dtype=np.int64),
        capacity=np.tile([4.0, 125e6, 5000.0, 8e9], (2, 1)),
        baseline=np.full(2, 1.0),
        completed=np.array([100.0, 50.0]),
        failed=np.zeros(2),
        in_flight=np.ones(2),
        latency_s=np.full(2, 0.01),
        leaving=np.zeros(2, dtype=np.bool_),
        eligible=np.ones(2, dtype=np.bool_),
    )


def _memory(name: str) -> dict[str, object]:
    law = laws.create(name)
    memory, _ = law.step(law.start(), snapshot())
    return laws.encode_memory(name, memory)


def _state(data: bytes) -> str:
    try:
        found = saved.decode(data)
    except Newer:
        return "newer"
    if found is None:
        return DAMAGED
    # Memories are judged by their own decoders, and never written as they were read.
    kept = Saved(term=found.term, generation=found.generation, memories={})
    require(saved.decode(saved.encode(kept)) == kept, "it is another one after encoding and decoding")
    return ACCEPTED


def _law_memory() -> Callable[[bytes], str]:
    known = {name: laws.create(name) for name in laws.NAMES}
    now = snapshot()

    def judge(data: bytes) -> str:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return "not_json"
        accepted = 0
        for name, law in known.items():
            memory = laws.decode_memory(law, document)
            if memory is None:
                continue
            accepted += 1
            require(
                json.dumps(laws.encode_memory(name, memory), allow_nan=False), "it cannot be written again"
            )
            with np.errstate(all="ignore"):  # only what comes out counts
                after, decision = law.step(memory, now)
            require(
                np.isfinite(decision.weights).all() and (decision.weights > 0).all(),
                "a weight is not a number above 0",
            )
            kept = laws.decode_memory(
                law, json.loads(json.dumps(laws.encode_memory(name, after), allow_nan=False))
            )
            require(kept is not None, "what the law then remembers could not be read again")
        return ACCEPTED if accepted else DAMAGED

    return judge


def _lease(data: bytes) -> str:
    found = lease.decode(data)
    if found is None:
        return DAMAGED
    require(lease.decode(lease.encode(found)) == found, "it is another one after encoding and decoding")
    return ACCEPTED


def _declaration(data: bytes) -> str:
    found = declaration.decode(data)
    if isinstance(found, str):
        require(found, "it is refused without a reason")
        return DAMAGED
    again = declaration.decode(declaration.encode(found))
    require(again == found, f"it is another one after encoding and decoding: {again}")
    return ACCEPTED


def _history(data: bytes) -> str:
    lines = data.split(b"\n")
    kept = moment.thinned(lines, step_s=1.0)
    require(set(kept) <= set(lines), "a moment is there that nobody wrote")
    return ACCEPTED if kept else DAMAGED
