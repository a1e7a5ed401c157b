"""The balancers under test as processes, a file for each program; the registry is here (I/O).

A program beside nginx also has its row in machine/programs.toml, and its configuration's template in
cluster/templates. Its methods are in scenario/algorithms.toml.
"""

from collections.abc import Mapping

from steelyard_loadtest.rig.proxies.caddy import Caddy
from steelyard_loadtest.rig.proxies.envoy import Envoy
from steelyard_loadtest.rig.proxies.haproxy import HAProxy
from steelyard_loadtest.rig.proxies.inference_routers import Sglang, Vllm
from steelyard_loadtest.rig.proxies.nginx import Nginx
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.proxies.steelyard import Steelyard
from steelyard_loadtest.rig.proxies.traefik import Traefik

PROXIES: Mapping[str, type[Proxy]] = {
    "nginx": Nginx,
    "nginx-mainline": Nginx,
    "steelyard": Steelyard,
    "haproxy": HAProxy,
    "envoy": Envoy,
    "traefik": Traefik,
    "caddy": Caddy,
    "sglang": Sglang,
    "vllm": Vllm,
}
"""By an algorithm's program."""
