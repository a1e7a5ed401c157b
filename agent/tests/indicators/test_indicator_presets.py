"""The presets on what the programs write: files that they wrote, and names that their documentation gives."""

import tomllib
from pathlib import Path

import prometheus_client
import pytest
from steelyard_agent.evidence import Evidence, Quantity
from steelyard_agent.indicators import declared, measure
from steelyard_agent.indicators.presets import PRESETS

WRITTEN = Path(__file__).parents[1] / "fixtures" / "indicators"

# The gauges that docs.vllm.ai and docs.sglang.io document; both engines write them with prometheus_client.
DOCUMENTED = {
    "vllm:num_requests_running": {("m", "0"): 96.0, ("m", "1"): 64.0},
    "vllm:num_requests_waiting": {("m", "0"): 3.0, ("m", "1"): 0.0},
    "vllm:kv_cache_usage_perc": {("m", "0"): 0.75, ("m", "1"): 0.5},
    "sglang:num_running_reqs": {("m", "0"): 40.0},
    "sglang:num_queue_reqs": {("m", "0"): 8.0},
    "sglang:token_usage": {("m", "0"): 0.28},
}


def documented() -> str:
    registry = prometheus_client.CollectorRegistry()
    for name, series in DOCUMENTED.items():
        gauge = prometheus_client.Gauge(name, "As documented.", ["model_name", "engine"], registry=registry)
        for labels, number in series.items():
            gauge.labels(*labels).set(number)
    return prometheus_client.generate_latest(registry).decode()


def share(preset: str, text: str, more: str = "") -> Evidence:
    (indicator,) = declared.parse(
        tomllib.loads(f'[[indicator]]\nname = "a"\npreset = "{preset}"\n{more}')["indicator"], interval_s=1.0
    )
    return measure.measured(indicator, None, measure.reading(indicator, text, 0.0))


@pytest.mark.parametrize(
    ("preset", "file", "more", "amount", "limit"),
    [
        ("nginx", "nginx.txt", "limit = 1024", 4.0, 1024.0),
        ("haproxy", "haproxy.prom", "", 4.0, 200.0),
        (
            "haproxy",
            "haproxy.csv",
            'text = "http://127.0.0.1/"\ncolumn = "scur"\nlimit = "slim"\n'
            'labels = { pxname = "web", svname = "FRONTEND" }',
            3.0,
            100.0,
        ),
        ("php-fpm", "php-fpm.json", "limit = 8", 3.0, 8.0),
        ("pgbouncer", "pgbouncer.csv", "limit = 4", 3.0, 4.0),
        ("pgbouncer", "pgbouncer.csv", 'limit = 2\nlabels = { database = "app" }', 2.0, 2.0),
        ("gunicorn", "gunicorn.txt", "limit = 20", 5.0, 20.0),
        ("gunicorn", "gunicorn.txt", 'limit = "Send-Q"', 5.0, 2048.0),
        ("uvicorn", "uvicorn.txt", "limit = 4", 2.0, 4.0),
    ],
)
def test_a_preset_reads_what_its_program_wrote(
    preset: str, file: str, more: str, amount: float, limit: float
) -> None:
    found = share(preset, (WRITTEN / file).read_text(), more)
    assert (found.numerator, found.denominator) == (Quantity(amount, ""), Quantity(limit, ""))
    assert found.value == amount / limit


@pytest.mark.parametrize(
    ("preset", "more", "value"),
    [
        ("vllm-running", "limit = 320", 0.5),
        ("vllm-waiting", "limit = 6", 0.5),
        ("vllm-kv-cache", "", 0.75),
        ("sglang-running", "limit = 80", 0.5),
        ("sglang-waiting", "limit = 80", 0.1),
        ("sglang-kv-cache", "", 0.28),
    ],
)
def test_an_inference_engines_preset_reads_its_documented_metrics(
    preset: str, more: str, value: float
) -> None:
    assert share(preset, documented(), more).value == pytest.approx(value)


def test_every_preset_is_tried_here() -> None:
    of_files = {"nginx", "haproxy", "php-fpm", "pgbouncer", "gunicorn", "uvicorn"}
    engines = {
        f"{engine}-{what}" for engine in ("vllm", "sglang") for what in ("running", "waiting", "kv-cache")
    }
    assert set(PRESETS) == of_files | engines
