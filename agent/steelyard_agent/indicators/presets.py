"""Presets: the keys of an `[[indicator]]` for programs that many run. Pure data.

Each is tried on text that the program itself wrote (agent/tests/fixtures/indicators/written.toml); those of
vLLM and SGLang have the names that their documentation gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PORT = "{port}"
"""Stands for the entry's port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Defaults of an entry's keys; `limit_is` says what to give where the program does not tell its limit."""

    port: int
    source: Mapping[str, str | tuple[str, ...]]
    read: Mapping[str, str | float]
    limit_is: str = ""

    def keys(self, port: int) -> Mapping[str, object]:
        """Return the keys, for a program on that port."""
        number = str(port)
        filled: dict[str, object] = {
            key: value.replace(PORT, number)
            if isinstance(value, str)
            else [word.replace(PORT, number) for word in value]
            for key, value in self.source.items()
        }
        return {**filled, **self.read}


_METRICS = f"http://127.0.0.1:{PORT}/metrics"

# What waits to be accepted: the one figure of a pool of workers that the kernel knows for every server.
_ACCEPT_QUEUE = Preset(
    port=8000,
    source={"command": ("ss", "-ltn", f"sport = :{PORT}")},
    read={"column": "Recv-Q"},
    limit_is="so many connections that wait to be accepted are 100 %, such as the number of workers",
)

PRESETS: Mapping[str, Preset] = {
    "nginx": Preset(
        port=80,
        source={"text": f"http://127.0.0.1:{PORT}/stub_status"},
        read={"after": "Active connections:"},
        limit_is="worker_processes x worker_connections, and half of it where nginx proxies",
    ),
    "haproxy": Preset(
        port=8404,
        source={"prometheus": _METRICS},
        read={
            "metric": "haproxy_process_current_connections",
            "limit": "haproxy_process_max_connections",
        },
    ),
    "php-fpm": Preset(
        port=80,
        source={"json": f"http://127.0.0.1:{PORT}/fpm-status?json"},
        read={"pointer": "/active processes"},
        limit_is="the pool's pm.max_children, which its status does not tell",
    ),
    "pgbouncer": Preset(
        port=6432,
        source={
            "command": (
                "psql", "--no-psqlrc", "--no-password", "--csv", "--command=SHOW POOLS",
                f"host=127.0.0.1 port={PORT} dbname=pgbouncer user=pgbouncer",
            )
        },
        read={"column": "sv_active"},
        limit_is="pool_size of the pools that are summed (all, or those that labels choose)",
    ),
    "gunicorn": _ACCEPT_QUEUE,
    "uvicorn": _ACCEPT_QUEUE,
    "vllm-kv-cache": Preset(
        port=8000,
        source={"prometheus": _METRICS},
        read={"metric": "vllm:kv_cache_usage_perc", "across": "max", "limit": 1},
    ),
    "vllm-running": Preset(
        port=8000,
        source={"prometheus": _METRICS},
        read={"metric": "vllm:num_requests_running"},
        limit_is="--max-num-seqs, times the engines",
    ),
    "vllm-waiting": Preset(
        port=8000,
        source={"prometheus": _METRICS},
        read={"metric": "vllm:num_requests_waiting"},
        limit_is="so many requests that wait are 100 %, such as --max-num-seqs",
    ),
    "sglang-kv-cache": Preset(
        port=30000,
        source={"prometheus": _METRICS},
        read={"metric": "sglang:token_usage", "across": "max", "limit": 1},
    ),
    "sglang-running": Preset(
        port=30000,
        source={"prometheus": _METRICS},
        read={"metric": "sglang:num_running_reqs"},
        limit_is="--max-running-requests, times the data-parallel ranks",
    ),
    "sglang-waiting": Preset(
        port=30000,
        source={"prometheus": _METRICS},
        read={"metric": "sglang:num_queue_reqs"},
        limit_is="so many requests that wait are 100 %, such as --max-running-requests",
    ),
}  # fmt: skip
