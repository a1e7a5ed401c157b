"""The balancers under test as processes, a file for each program; the registry is here (I/O).

A program beside nginx also has its row in machine/programs.toml, and its configuration's template in
cluster/templates. Its methods are in scenario/algorithms.toml.
"""

from collections.abc import Mapping

from steelyard_loadtest.rig.proxies.envoy import Envoy
from steelyard_loadtest.rig.proxies.haproxy import HAProxy
from steelyard_loadtest.rig.proxies.inference_routers import Sglang
from steelyard_loadtest.rig.proxies.nginx import Nginx
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.proxies.steelyard import Steelyard

PROXIES: Mapping[str, type[Proxy]] = {
    "nginx": Nginx,
    "steelyard": Steelyard,
    "haproxy": HAProxy,
    "envoy": Envoy,
    "sglang": Sglang,
}
"""By an algorithm's program."""
