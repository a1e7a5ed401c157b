"""The load report of an answer: the agent's value, and the rate that the agent cannot know."""

import pytest
from steelyard_agent import orca as agent
from steelyard_agent.record import INDICATORS, SampleRecord
from steelyard_loadtest.server.orca import FIELDS, HEADER, with_rate


def agent_value(**utilization: float) -> str:
    record = SampleRecord(
        upstream="web",
        peer="server-1",
        boot="5f0c",
        seq=1,
        taken_at_ms=1_790_000_000_000,
        interval_s=1.0,
        utilization=tuple(utilization.get(name) for name in INDICATORS),
        capacity=(2.0, None, None, None),
        scope="process",
    )
    value = agent.value(record)
    assert value is not None
    return value


def test_header_and_fields_are_the_agent_s() -> None:
    assert agent.HEADER == HEADER
    assert set(agent.FIELDS.values()) == set(FIELDS)


def test_the_rate_is_added_to_what_the_agent_wrote() -> None:
    written = f"{agent_value(cpu=0.42, io=0.1)}\n"
    assert with_rate(written, 118.5) == (
        "TEXT cpu_utilization=0.42,named_metrics.io=0.1,rps_fractional=118.500"
    )


@pytest.mark.parametrize("cpu", [0.0, 1e-9, 0.333333333, 1.0, 7.25])
def test_every_figure_of_an_agent_is_passed_on(cpu: float) -> None:
    value = agent_value(cpu=cpu, mem=1.0, net=0.5, io=0.0)
    assert with_rate(value, None) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "TEXT ",
        "cpu_utilization=0.4",
        "TEXT cpu_utilization=",
        "TEXT cpu_utilization=nan",
        "TEXT cpu_utilization=-1",
        "TEXT cpu_utilization=1e3",
        "TEXT application_utilization=0.4",
        "TEXT cpu_utilization=0.4,",
        "TEXT cpu_utilization=0.4\r\nX-Other: 1",
        'JSON {"cpu_utilization": 0.4}',
    ],
)
def test_what_is_not_an_agent_s_value_is_no_report(text: str) -> None:
    assert with_rate(text, 10.0) is None
