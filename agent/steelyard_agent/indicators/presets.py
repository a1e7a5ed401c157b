"""Presets: the keys of an `[[indicator]]` for widespread programs. Pure data.

Each is tested on text that the program itself wrote (agent/tests/fixtures/indicators/written.toml). Those of
inference engines use the names in their documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PORT_PLACEHOLDER = "{port}"
"""Stands for the entry's port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Defaults of an entry's keys; `limit_is` describes the limit to give if the program reports none."""

    port: int
    keys: Mapping[str, str | float | tuple[str, ...]]
    limit_is: str = ""

    def on(self, port: int) -> dict[str, object]:
        """Return the keys for a program on that port."""
        return {key: _filled(value, str(port)) for key, value in self.keys.items()}


def _filled(value: str | float | tuple[str, ...], port: str) -> object:
    match value:
        case str():
            return value.replace(PORT_PLACEHOLDER, port)
        case tuple():
            return [word.replace(PORT_PLACEHOLDER, port) for word in value]
    return value


_METRICS = f"http://127.0.0.1:{PORT_PLACEHOLDER}/metrics"

# Waiting connections: the one figure of a pool of workers that the kernel has for every server.
_ACCEPT_QUEUE = Preset(
    port=8000,
    keys={"command": ("ss", "-ltn", f"sport = :{PORT_PLACEHOLDER}"), "column": "Recv-Q"},
    limit_is="the number of waiting connections that is 100 %, such as the number of workers",
)

_WAITING = "the number of waiting requests that is 100 %, such as "


def _gauge(port: int, metric: str, limit_is: str) -> Preset:
    return Preset(port=port, keys={"prometheus": _METRICS, "metric": metric}, limit_is=limit_is)


def _share(port: int, metric: str) -> Preset:
    return Preset(port=port, keys={"prometheus": _METRICS, "metric": metric, "across": "max", "limit": 1})


PRESETS: Mapping[str, Preset] = {
    "nginx": Preset(
        port=80,
        keys={"text": f"http://127.0.0.1:{PORT_PLACEHOLDER}/stub_status", "after": "Active connections:"},
        limit_is="worker_processes x worker_connections, and half of it if nginx proxies",
    ),
    "haproxy": Preset(
        port=8404,
        keys={
            "prometheus": _METRICS,
            "metric": "haproxy_process_current_connections",
            "limit": "haproxy_process_max_connections",
        },
    ),
    "php-fpm": Preset(
        port=80,
        keys={"json": f"http://127.0.0.1:{PORT_PLACEHOLDER}/fpm-status?json", "pointer": "/active processes"},
        limit_is="the pool's pm.max_children, which its status does not show",
    ),
    "pgbouncer": Preset(
        port=6432,
        keys={
            "command": (
                "psql", "--no-psqlrc", "--no-password", "--csv", "--command=SHOW POOLS",
                f"host=127.0.0.1 port={PORT_PLACEHOLDER} dbname=pgbouncer user=pgbouncer",
            ),
            "column": "sv_active",
        },
        limit_is="pool_size of the summed pools (all, or those that labels choose)",
    ),
    "gunicorn": _ACCEPT_QUEUE,
    "uvicorn": _ACCEPT_QUEUE,
    "vllm-kv-cache": _share(8000, "vllm:kv_cache_usage_perc"),
    "vllm-running": _gauge(8000, "vllm:num_requests_running", "--max-num-seqs, times the engines"),
    "vllm-waiting": _gauge(8000, "vllm:num_requests_waiting", _WAITING + "--max-num-seqs"),
    "sglang-kv-cache": _share(30000, "sglang:token_usage"),
    "sglang-running": _gauge(
        30000, "sglang:num_running_reqs", "--max-running-requests, times the data-parallel ranks"
    ),
    "sglang-waiting": _gauge(30000, "sglang:num_queue_reqs", _WAITING + "--max-running-requests"),
    "tgi-running": _gauge(3000, "tgi_batch_current_size", "--max-batch-size, or as many as fit"),
    "tgi-waiting": _gauge(3000, "tgi_queue_size", _WAITING + "a batch has"),
    "llamacpp-running": _gauge(8080, "llamacpp:requests_processing", "its slots, --parallel"),
    "llamacpp-waiting": _gauge(8080, "llamacpp:requests_deferred", _WAITING + "--parallel"),
}  # fmt: skip
