"""What the demo takes on its command line, the plan of a phase, and the load that fits a cluster."""

import argparse
import re

import pytest
from steelyard_loadtest.__main__ import main
from steelyard_loadtest.demo.command import add_parser
from steelyard_loadtest.demo.records import LOWEST_RATE, Cost, Plan, capacity, target_rate, users_for

FLAGS = "seconds rate users out base-url controller-url upstream burn servers"

# The demo's servers at a millisecond a request.
COSTS = [Cost(cpu_s_per_request=0.001, limit_cores=cores) for cores in (0.15, 0.15, 0.3)]


def taken(flag: str, text: str) -> object:
    """What the command line makes of a flag."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["demo", f"--{flag}={text}"])
    return getattr(parsed, flag.replace("-", "_"))


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        ("seconds", "6", 6),
        ("seconds", "3600", 3600),
        ("rate", "1", 1.0),
        ("rate", "12.5", 12.5),
        ("users", "5000", 5000),
        ("base-url", "http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("base-url", "https://[::1]:8080/a/", "https://[::1]:8080/a"),
        (
            "servers",
            "server-1=http://a:1/,server-2=http://b:2",
            {"server-1": "http://a:1", "server-2": "http://b:2"},
        ),
    ],
)
def test_what_is_within_the_bounds_is_taken(flag: str, text: str, value: object) -> None:
    assert taken(flag, text) == value


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        *(("seconds", text) for text in ("5", "3601", "7.5", "nan", "inf", "", "a minute")),
        *(("rate", text) for text in ("0.9", "20001", "nan", "-5", "")),
        *(("users", text) for text in ("0", "5001", "2.5", "")),
        *(("base-url", text) for text in ("127.0.0.1:8080", "ftp://a", "file:///etc/passwd", "http://", "")),
        *(
            ("servers", text)
            for text in ("", "server-1", "server-1=", "=http://a:1", "a b=http://a:1", "a=http://a:1,")
        ),
    ],
)
def test_what_is_not_is_refused_with_a_reason(
    flag: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        taken(flag, text)
    assert re.search(r"number|URL", capsys.readouterr().err)


@pytest.mark.parametrize(
    "flag", ["--seconds=5", "--rate=0", "--users=0", "--base-url=nowhere", "--servers=x"]
)
def test_a_wrong_flag_is_status_2_and_is_named(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", flag])
    assert ended.value.code == 2
    assert f"argument {flag.partition('=')[0]}: " in capsys.readouterr().err


def test_help_names_every_option_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(f"--{name}" in said for name in FLAGS.split())
    assert all(
        default in " ".join(said.split()) for default in ("(60)", "(demo-results)", "(server-1)", "60 %")
    )


def test_the_middle_third_is_burnt() -> None:
    plan = Plan(
        name="steelyard",
        title="Steelyard",
        path="/",
        static=False,
        seconds=60,
        rate=300,
        users=150,
        burn_url="http://127.0.0.1:8101",
        servers=("server-1",),
    )
    assert plan.burn == (20, 40)


def test_capacity_is_the_sum_of_what_each_server_can_do() -> None:
    assert capacity(COSTS) == pytest.approx(600)
    assert capacity([*COSTS, Cost(cpu_s_per_request=0.002, limit_cores=0.2)]) == pytest.approx(700)


def test_the_rate_is_60_percent_of_capacity_in_tens() -> None:
    assert target_rate(COSTS) == 360
    assert target_rate([Cost(cpu_s_per_request=0.0011, limit_cores=0.6)]) == 330


def test_a_slow_machine_still_gets_some_load() -> None:
    assert target_rate([Cost(cpu_s_per_request=1.0, limit_cores=0.1)]) == LOWEST_RATE


@pytest.mark.parametrize(("rate", "users"), [(360, 180), (30, 15), (1, 10)])
def test_each_user_has_two_requests_a_second_to_send_and_there_are_at_least_ten(
    rate: float, users: int
) -> None:
    assert users_for(rate) == users
