"""What the demo takes on its command line, and how a phase is planned from it."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_loadtest.__main__ import main
from steelyard_loadtest.demo import arguments
from steelyard_loadtest.demo.options import Options, Plan


@pytest.mark.parametrize(
    ("take", "text", "value"),
    [
        (arguments.seconds, "6", 6),
        (arguments.seconds, "3600", 3600),
        (arguments.rate, "1", 1.0),
        (arguments.rate, "12.5", 12.5),
        (arguments.users, "5000", 5000),
        (arguments.url, "http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        (arguments.url, "https://[::1]:8080/a/", "https://[::1]:8080/a"),
        (
            arguments.servers,
            "server-1=http://a:1/,server-2=http://b:2",
            {"server-1": "http://a:1", "server-2": "http://b:2"},
        ),
    ],
)
def test_what_is_within_the_bounds_is_taken(take: Callable[[str], object], text: str, value: object) -> None:
    assert take(text) == value


@pytest.mark.parametrize(
    ("take", "text"),
    [
        *((arguments.seconds, text) for text in ("5", "3601", "7.5", "nan", "inf", "", "a minute")),
        *((arguments.rate, text) for text in ("0.9", "20001", "nan", "-5", "")),
        *((arguments.users, text) for text in ("0", "5001", "2.5", "")),
        *(
            (arguments.url, text)
            for text in ("127.0.0.1:8080", "ftp://a", "file:///etc/passwd", "http://", "")
        ),
        *(
            (arguments.servers, text)
            for text in ("", "server-1", "server-1=", "=http://a:1", "a b=http://a:1", "a=http://a:1,")
        ),
    ],
)
def test_what_is_not_is_refused_with_a_reason(take: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"number|URL"):
        take(text)


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
    assert all(f"--{name.replace('_', '-')}" in said for name in Options.__dataclass_fields__)
    assert all(
        default in " ".join(said.split()) for default in ("(60)", "(demo-results)", "(server-1)", "60 %")
    )


def test_the_weights_are_asked_of_the_controller_for_the_upstream() -> None:
    options = Options(
        seconds=60,
        rate=None,
        users=None,
        out=Path("out"),
        base_url="http://127.0.0.1:8080",
        controller_url="http://127.0.0.1:8081",
        upstream="web",
        burn="server-1",
        servers=None,
    )
    assert options.weights_url == "http://127.0.0.1:8081/v1/upstreams/web"


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
    assert (plan.burn_from_s, plan.burn_to_s) == (20, 40)
