"""The data plane's decoders on LuaJIT, which nginx runs: openresty/steelyard/spec/support/fuzz_targets.lua.

Python and LuaJIT also read the same weight tables, and must agree.
"""

import json
import select
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO, Any, cast

from steelyard_loadtest.machine.errors import ProgramError

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz import agreement, generated
from steelyard_resilience.fuzz.target import Tally, Target, ViolationError, outcome_of, require
from steelyard_resilience.fuzz.targets.configuration import ADDRESSES
from steelyard_resilience.fuzz.targets.memcached_values import examples

METHOD = "generated Lua"

BOTH, BOTH_METHOD = "weight-table-both", "Python and Lua"

COMMAND = ("luajit", "openresty/steelyard/spec/support/fuzz_targets.lua")

# Seconds for one input, on a busy machine.
PATIENCE_S = 60.0

FAILURES = (
    b'{"lb":"edge-2","upstreams":{"web":{"order":[1,4],"rows":{"10.0.0.1:80":[0,3,12,0],"[::1]:80":[9,1,4,4]}}}}',
)
LOADS = (
    b"TEXT named_metrics.in_flight=17",
    b"TEXT cpu_utilization=0.3,mem_utilization=0.8,named_metrics.kv_cache=0.4,utilization.gpu=1",
    b'JSON {"cpuUtilization":0.3,"mem_utilization":0.8,"named_metrics":{"a":1,"b":-2.5},'
    b'"utilization":{"gpu":1}}',
    b"BIN CeF6FK5H4do/EdejcD0K19M/MQAAAAAAoF1AQg0KAmlvEZqZmZmZmbk/Qg4KA25ldBF7FK5H4XqUP0lmZmZmZmbmPw==",
)
OPTIONS = (
    b'{"memcached":["10.0.0.5:11211"],"lb":"edge-1","upstreams":{"web":{"bootstrap":["10.0.0.11:80","[::1]:80"]}}}',
    b'{"memcached":["a:1"],"controller":["http://[::1]:8081/x"],"controller_token":"abc","key":"0123456789abcdef",'
    b'"state_dir":"/var/lib","lb":"e","hold_s":60,"drift_s":300,"allow":["10.0.0.0/8","::1"],"upstreams":{"web":'
    b'{"check":{"path":"/healthz","statuses":[200]},"max_fails":2,"fail_timeout_s":10,"bootstrap":["1.2.3.4:1"]}}}',
)

LUA: dict[str, tuple[str, str | Sequence[bytes]]] = {
    "lua-weight-table": ("a weight table, alone and after another one", "weights"),
    "lua-head": ("a table's head, put into a table", "head"),
    "lua-chunks": ("a manifest and its chunks, joined", "chunks"),
    "lua-list": ("the list of upstreams", "upstreams"),
    "lua-slices": ("a list decoded in slices, beside the whole", "weights"),
    "lua-signed": ("a signed value", "signed"),
    "lua-address": ("an address, a block, a hash key", ADDRESSES),
    "lua-options": ("the options of init_worker", OPTIONS),
    "lua-report": ("a traffic report, written", "traffic"),
    "lua-orca": ("a server's load report", LOADS),
    "lua-failures": ("failures at another load balancer", FAILURES),
}
"""The input of each target, and its examples: the name of a format in docs/contract, or texts."""

Ask = Callable[[str, bytes], dict[str, Any]]
"""Returns `outcome` and `value` of a Lua target for an input; raises ViolationError, ProgramError."""


def run(name: str, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Try inputs of a target for `seconds`. Raises ProgramError when LuaJIT ends."""
    with judging() as ask:
        yield generated.run(target(name, ask), seconds=seconds, seed=seed, method=METHOD)


def target(name: str, ask: Ask) -> Target:
    """Return a decoder of LUA."""
    about, seeds = LUA[name]
    seeds = examples(seeds) if isinstance(seeds, str) else seeds
    return Target(name, about, lambda data: str(ask(name, data)["outcome"]), seeds)


@contextmanager
def judging() -> Iterator[Ask]:
    """Run a LuaJIT to judge inputs while the block runs; ProgramError when it has ended, or hangs."""
    with subprocess.Popen(COMMAND, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        questions, answers = cast("tuple[IO[bytes], IO[bytes]]", (process.stdin, process.stdout))

        def ask(name: str, data: bytes) -> dict[str, Any]:
            with suppress(BrokenPipeError):
                questions.write(f"{name.removeprefix('lua-')} {len(data)}\n".encode() + data)
                questions.flush()
            if not select.select([answers], [], [], PATIENCE_S)[0]:
                raise ProgramError(f"LuaJIT hangs: no answer in {PATIENCE_S:g} s")
            line = answers.readline()
            if not line:
                raise ProgramError(f"LuaJIT ended with {process.wait()}")
            answer: dict[str, Any] = json.loads(line.decode("utf-8", "replace"))
            require("broken" not in answer, f"Lua: {answer.get('broken')}")
            return answer

        try:
            yield ask
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                questions.close()


def compare(table: Target, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Feed weight tables to both for `seconds`; raise ProgramError when LuaJIT ends."""
    harmless = Counter[str]()
    with judging() as ask:

        def both(data: bytes) -> str:
            lua = ask("weight-table", data)
            try:
                python = outcome_of(table, data)
            except ViolationError as error:
                raise ViolationError(f"Python: {error}") from error
            what = agreement.difference(data, lua)
            if what is not None:
                why = agreement.known(data, lua)
                require(why, what)
                harmless[str(why)] += 1
            elif python != lua["outcome"]:
                harmless["refused by both for different reasons"] += 1
            outcome: str = lua["outcome"]
            return outcome

        compared = Target(BOTH, "a weight table, read alike by both languages", both, table.seeds)
        tally = generated.run(compared, seconds=seconds, seed=seed, method=BOTH_METHOD)
    yield replace(tally, notes=tuple(f"{count} x {why}" for why, count in harmless.most_common()))
