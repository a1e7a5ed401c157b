"""The contenders and their engines: two engines and two of twice the size, one of which slows.

Contenders with weights get the sizes as weights. Ours, sglang-router and vllm-router find a prompt's
prefix in the body; for the others the load writes its key into the target.
"""

from dataclasses import replace
from pathlib import Path

from steelyard_loadtest.scenario.algorithms import Algorithm, with_those_of
from steelyard_loadtest.scenario.definition import Load, Scenario, Server

SIZES = {"small-1": 1, "small-2": 1, "big-1": 2, "big-2": 2}
SLOWED, SLOWED_TO = "big-2", 0.5
"""Part of its speed from the middle of each trial's counted part on; no balancer is informed."""

# The rest is as in openresty/examples/inference.conf.
NGINX = ("proxy_buffering off", "client_max_body_size 16m", "client_body_buffer_size 512k")
OURS = (
    "lua_shared_dict steelyard_keys 10m",
    "body_filter_by_lua 'require(\"steelyard.inference\").answer()'",
    'access_by_lua \'if ngx.var.uri ~= "/steelyard/status" then require("steelyard").limit("web") end\'',
)
COSTS = {
    "cost": 'function() return require("steelyard.inference").cost() end',
    "cost_at_end": 'function() return require("steelyard.inference").used() end',
    "max_conns": 64,
    "queue": {"size": 256, "timeout_s": 20},
    "full_status": 429,
}
KEYS = {
    "hash_key": 'function() return require("steelyard.inference").prefix() end',
    "remember_keys": "steelyard_keys",
}


ROUTERS = ("sglang", "vllm")
"""Programs that take no weights."""


def _with_sizes(contender: Algorithm) -> Algorithm:
    weighed = contender if contender.program in ROUTERS else replace(contender, weights="true")
    if not contender.ours:
        return replace(weighed, directives=NGINX)
    options = COSTS | (KEYS if contender.method == "bounded_hash" else {})
    # An engine's CPU shows nothing, so its agent reads the number of its running sequences.
    only = {"running": dict[str, float]()}
    return replace(weighed, directives=NGINX + OURS, options=options, indicators=only, four=False)


CONTENDERS = tuple(map(_with_sizes, with_those_of(Path(__file__).with_suffix(".toml"), ())))
BY_NAME = {contender.name: contender for contender in CONTENDERS}


def scenario(names: tuple[str, ...], *, quick: bool) -> Scenario:
    """Return the scenario with these contenders."""
    load = Load(generator="open", levels=(0.7, 0.9), of_capacity=True, seconds=60, warm_up_s=12)
    if quick:
        load = replace(load, levels=(0.8,), seconds=40, warm_up_s=8, repeats=1)
    return Scenario(
        name="inference", title="Inference engines", what=__doc__, source="Mooncake, Splitwise", quick=quick,
        path="/health", load=load, algorithms=names,
        servers=tuple(Server(name=name, weight=size) for name, size in SIZES.items()),
    )  # fmt: skip
