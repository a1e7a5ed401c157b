"""Spans of ticks and requests reach a real collector; one that is away or hangs delays nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_controller import wiring
from steelyard_controller.settings import load
from steelyard_protocol.program_settings import SettingsError

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import wait_until

from .api.serving import WEB
from .otlp_collector import collector
from .processes import LOCAL, Controller, controller, own_token

WEB_URL = "/v1/upstreams/web"
TRACE, CLIENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = {"traceparent": f"00-{TRACE}-{CLIENT}-01", "tracestate": "vendor=1"}


def sent_to(url: str, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100", **more}


def _ticks(of: Controller) -> Callable[[], float]:
    def ticks() -> float:
        text = LOCAL.get(f"{of.url}/metrics").text
        return next(float(line.split()[1]) for line in text.splitlines() if "tick_seconds_count" in line)

    return ticks


def _declare(leader: Controller) -> None:
    LOCAL.put(f"{leader.url}{WEB_URL}", json=WEB, headers=own_token()).raise_for_status()
    leader.wait_decided(WEB_URL)


@pytest.mark.integration
def test_a_tick_has_its_steps_and_a_request_one_trace_from_the_client_through_the_standby(
    tmp_path: Path, memcached: Daemon, redis_server: Daemon
) -> None:
    flags = ["--memcached", memcached.address, "--state-url", f"redis://{redis_server.address}/0"]
    with (
        collector(free_port()) as taken,
        controller(
            tmp_path, *flags, environment=sent_to(taken.url, OTEL_RESOURCE_ATTRIBUTES="service.name=first")
        ) as leader,
    ):
        leader.wait("leader")
        _declare(leader)
        tick = taken.one("first", "tick")
        for name in ("read", "decide", "publish", "save"):
            step = taken.one("first", name)
            assert step.parent == taken.one("first", "tick", trace=step.trace).id
        assert tick.parent == ""
        with (
            controller(
                tmp_path, *flags, environment=sent_to(taken.url, OTEL_SERVICE_NAME="second")
            ) as standby,
            controller(tmp_path, *flags) as without,
        ):
            standby.wait("standby")
            LOCAL.get(f"{standby.url}{WEB_URL}", headers=TRACED).raise_for_status()
            at_standby = taken.one("second", "GET /v1/upstreams/{upstream}", trace=TRACE)
            at_leader = taken.one("first", "GET /v1/upstreams/{upstream}", trace=TRACE)
            assert (at_standby.parent, at_standby.path) == (CLIENT, WEB_URL)
            assert at_leader.parent == at_standby.id
            # A controller without spans passes on the client's own.
            without.wait("standby")
            taken.spans.clear()
            LOCAL.get(f"{without.url}{WEB_URL}", headers=TRACED).raise_for_status()
            assert taken.one("first", "GET /v1/upstreams/{upstream}", trace=TRACE).parent == CLIENT
        assert not {each.path for each in taken.spans} & {"/readyz", "/healthz", "/metrics"}


@pytest.mark.integration
def test_a_collector_that_is_away_is_told_once_and_so_is_its_return(tmp_path: Path) -> None:
    port = free_port()
    flags = ["--memcached", "127.0.0.1:1", "--state-url", "memory://"]
    with controller(tmp_path, *flags, environment=sent_to(f"http://127.0.0.1:{port}")) as only:
        only.wait("leader")
        _declare(only)
        ticks = _ticks(only)
        wait_until(lambda: "spans: " in only.log.read_text(), "the fault")
        before = ticks()
        wait_until(lambda: ticks() > before + 20, "ticks")
        with collector(port) as taken:
            taken.one("steelyard-controller", "tick")
            wait_until(lambda: "spans works again" in only.log.read_text(), "the end of the fault")
            log = only.log.read_text()
        assert log.count("part=spans") == 2
        assert "Connection refused" in log
        assert only.ready("leader")
        assert (
            LOCAL.get(f"{only.url}/readyz").json()["degraded"]
            == LOCAL.get(f"{only.url}/v1/service").json()["degraded"]
        )
        only.stop()


@pytest.mark.integration
def test_nobody_waits_for_a_collector_that_hangs_and_a_full_queue_is_told_once(tmp_path: Path) -> None:
    flags = ["--memcached", "127.0.0.1:1", "--state-url", "memory://"]
    with collector(free_port(), hangs=True) as taken:
        hour = sent_to(taken.url, OTEL_EXPORTER_OTLP_TIMEOUT="3600", OTEL_BSP_MAX_QUEUE_SIZE="8")
        hour["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"] = "8"
        with controller(tmp_path, *flags, environment=hour) as only:
            only.wait("leader")
            _declare(only)
            wait_until(lambda: taken.posts > 0 and "Queue full" in only.log.read_text(), "a full queue")
            ticks = _ticks(only)
            before = ticks()
            wait_until(lambda: ticks() > before + 20, "ticks")
            assert LOCAL.get(f"{only.url}{WEB_URL}").status_code == 200
            only.stop()
            assert only.log.read_text().count("Queue full") == 1
            assert taken.posts == 1


@pytest.mark.integration
@pytest.mark.parametrize(
    ("before", "says"),
    [
        (
            "sys.modules['opentelemetry.sdk'] = None",
            "OTEL_... variables ask for spans, which takes OpenTelemetry's SDK: pip install "
            "'steelyard-controller[otel]', or set OTEL_SDK_DISABLED=true",
        ),
        (
            "os.environ['OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT'] = '-1'",
            "an OTEL_... variable is not as OpenTelemetry's SDK wants it: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
        ),
        (
            "os.environ['OTEL_BSP_SCHEDULE_DELAY'] = '-1'",
            "an OTEL_... variable is not as OpenTelemetry's SDK wants it: schedule_delay_millis must",
        ),
    ],
)
def test_without_the_sdk_or_with_what_it_does_not_take_one_line_says_what_to_do(
    before: str, says: str
) -> None:
    command = [sys.executable, "-m", "steelyard_controller"]
    ran = warm_start.run(command, before=f"{before}; os.environ['OTEL_TRACES_EXPORTER'] = 'otlp'")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"steelyard-controller: {says}")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SERVICE_NAME": "edge"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"},
    ],
)
def test_no_spans_are_made_unless_they_are_asked_for(environment: dict[str, str]) -> None:
    assert wiring.span_export(load([], {}), environment) is None


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin': it may be otlp or none"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318"},
            "OTEL_EXPORTER_OTLP_ENDPOINT is 'c:4318': write it as http://host:4318",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc': it may be http/protobuf (a collector's port 4318)",
        ),
    ],
)
def test_a_variable_that_is_wrong_is_named_with_what_it_may_be(
    environment: dict[str, str], says: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        wiring.span_export(load([], {}), environment)
    assert str(refused.value) == says
