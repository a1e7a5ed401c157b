"""The command line before any controller is asked: arguments, environment, token files, error answers."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from steelyard_controller import generated_token, laws
from steelyard_controller.cli import connection_flags, error_answers, main
from steelyard_controller.cli.api_client import Controllers
from steelyard_controller.cli.exit_status import MEANINGS, Exit, UsageError


def connection(*arguments: str, **environment: str) -> connection_flags.Connection:
    parser = argparse.ArgumentParser()
    connection_flags.add(parser)
    return connection_flags.connection(parser.parse_args(arguments), environment)


def test_the_default_is_the_controller_on_this_machine() -> None:
    flags = connection()
    assert (flags.urls, flags.token, flags.token_file) == (("http://127.0.0.1:8081",), None, None)


def test_the_token_that_a_controller_here_made_goes_to_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STEELYARD_TOKEN", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    here, elsewhere = "http://127.0.0.1:8081", "http://ctl.example:8081"
    with Controllers(connection("--url", here)) as controllers:
        assert controllers.token_for(here) is None
        made = generated_token.read_or_make(generated_token.path({"XDG_STATE_HOME": str(tmp_path)}))
        for url in (here, "http://localhost", "http://[::1]:8081"):
            assert controllers.token_for(url) == made
        assert controllers.token_for(elsewhere) is None
    assert main(["page"]) == 0
    assert capsys.readouterr().out == f"{here}/#token={made}\n"
    assert main(["page", "--url", elsewhere]) == 0
    assert capsys.readouterr().out == f"{elsewhere}/\n"
    with Controllers(connection("--url", elsewhere, **{"STEELYARD_TOKEN": "given"})) as controllers:
        assert controllers.token_for(elsewhere) == controllers.token_for(here) == "given"


def test_flags_are_stronger_than_the_environment() -> None:
    environment = {"STEELYARD_URL": "http://a:1", "STEELYARD_TOKEN": "of-the-environment"}
    assert connection(**environment).urls == ("http://a:1",)
    assert connection(**environment).token == environment["STEELYARD_TOKEN"]
    flags = connection("--url", "http://b:2/, https://c/steelyard", "--token-file", "t", **environment)
    assert flags.urls == ("http://b:2", "https://c/steelyard")
    assert (flags.token, flags.token_file) == (None, Path("t"))


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            ["--url", "127.0.0.1:8081"],
            {},
            "--url: '127.0.0.1:8081' is no URL of a controller: write it as http",
        ),
        (["--url", "http://a,,"], {}, "--url: '' is no URL of a controller"),
        (["--url", "ftp://a"], {}, "--url: 'ftp://a' is no URL"),
        (["--url", "http://a:b"], {}, "--url: 'http://a:b' is no URL"),
        (["--url", "http://a:65536"], {}, "--url: 'http://a:65536' is no URL"),
        (["--url", "http://a:0"], {}, "--url: 'http://a:0' is no URL"),
        (["--url", "http://a?x=1"], {}, "--url: 'http://a?x=1' is no URL"),
        ([], {"STEELYARD_URL": "nonsense"}, "STEELYARD_URL: 'nonsense' is no URL"),
        ([], {"STEELYARD_TOKEN": ""}, "STEELYARD_TOKEN holds no token"),
        ([], {"STEELYARD_TOKEN": "two words"}, "STEELYARD_TOKEN holds no valid token"),
        (["--timeout", "0"], {}, "--timeout 0: give seconds"),
        (["--timeout", "nan"], {}, "--timeout nan: give seconds"),
    ],
)
def test_what_cannot_be_taken_is_named_with_the_remedy(
    arguments: list[str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        connection(*arguments, **environment)
    assert str(caught.value).startswith(message)


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        connection("--url", "http://admin:hunter2@a:1")
    assert "hunter2" not in str(caught.value)
    assert "--token-file" in str(caught.value)


def test_of_several_tokens_in_a_file_the_first_is_used() -> None:
    assert connection_flags.as_token("\n first-token \nsecond\n", "t") == "first-token"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "web", "../secrets"], "'../secrets' cannot be the name of a peer"),
        (["weights", ".."], "'..' cannot be the name of an upstream"),
        (["pin", "web", "a", "100"], "PERCENT 100: give a number above 0 and below 100"),
        (["pin", "web", "a", "lots"], "PERCENT lots: give a number"),
        (["history", "web", "--seconds", "-5"], "--seconds -5: give seconds within 1..86400"),
        (["history", "web", "--step", "1e999"], "--step 1e999: give seconds within 0..3600"),
        (["watch", "web", "--count", "0"], "--count 0: give a number of ticks"),
        (["status", "--limit", "10001"], "--limit 10001: give a number of rows within 1..10000, without a"),
        (["audit", "--limit", "0"], "--limit 0: give a number of changes within 1..1000, without a point"),
        (["audit", "--before", "5.5"], "--before 5.5: give the ID of a change within 1.."),
        (["audit", "--origin", "robots"], "--origin robots: give people, machines, files"),
        (["audit", "a b"], "'a b' cannot be the name of an upstream"),
        (["status", "a b"], "'a b' cannot be the name of an upstream"),
        (["status", ""], "'' cannot be the name of an upstream"),
        (
            ["weights", "--token-file", "/nonexistent/token"],
            "the token file /nonexistent/token cannot be read: ",
        ),
        (["apply", "/nonexistent.yaml"], "/nonexistent.yaml cannot be read: "),
        (["replay", "--law", "nonesuch"], "there is no law 'nonesuch'; choose one of: steelyard, "),
    ],
)
def test_a_wrong_argument_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nothing listens at port 1: the mistake is found before any request.
    status = main(["--url", "http://127.0.0.1:1", *arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith(f"steelyard: {message}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peers: []", "declares no upstream: write them below `upstreams:`"),
        ("[1", ": it is not YAML: "),
        ("upstreams: !!bool maybe", ": it is not YAML: no such date, number or other value"),
        ("upstreams: 2001-02-30", ": it is not YAML: no such date, number or other value"),
        ("[" * 1000, ": its lists or mappings are nested too deeply"),
        ("upstreams: {web: {peers: [{id: a, address: '10.0.0.1'}]}}", ": line 1: web: peers.0.address: "),
        (
            "upstreams:\n  web: {}\n  api: {}\n  web: {}",
            ": line 4: the key web occurs twice in one mapping, first in line 2: leave one out",
        ),
        ("upstreams:\n  no: {}", ': line 2: the key no is read as true or false: put it in quotes, "no"'),
        ("upstreams:\n  1.50: {}", ': line 2: the key 1.50 is read as a number: put it in quotes, "1.50"'),
        (
            "upstreams:\n  web:\n    parameters:\n      H: yes",
            ": line 4: web: parameters.H: true is not a number: write it without quotes",
        ),
        ("upstreams: {'a b': {}}", "'a b' cannot be the name of an upstream"),
    ],
)
def test_a_file_that_cannot_be_applied_says_why(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text(text)
    assert main(["apply", str(file), "--url", "http://127.0.0.1:1"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert str(file) in err
    assert len(err.splitlines()) == 1


def problem(status: int, **members: Any) -> bytes:
    return json.dumps({"type": "about:blank", "title": "T", "status": status, **members}).encode()


@pytest.mark.parametrize(
    ("status", "exit_status"),
    [(401, 4), (403, 4), (404, 5), (409, 6), (412, 6), (422, 6), (500, 6), (502, 3), (503, 3)],
)
def test_every_error_answer_has_its_exit_status(status: int, exit_status: int) -> None:
    failure = error_answers.failure("http://a", status, problem(status, detail="why"))
    assert failure.status == exit_status
    assert "why" in str(failure)


def test_a_refused_parameter_of_a_reading_request_is_a_mistake_of_the_command_line() -> None:
    for status, exit_status in ((400, 2), (414, 2), (422, 2), (404, 5), (503, 3)):
        failure = error_answers.failure("http://a", status, problem(status, detail="why"), reads=True)
        assert failure.status == exit_status


def test_the_mistakes_of_a_document_are_said_once_each() -> None:
    detail = "pin: 120 is too much"
    errors = [{"field": "pin", "message": "120 is too much"}, {"field": "state", "message": "no such"}]
    failure = error_answers.failure("http://a", 422, problem(422, detail=detail, errors=errors))
    assert str(failure) == "pin: 120 is too much; state: no such"


def test_a_missing_token_says_how_to_give_one() -> None:
    failure = error_answers.failure("http://a", 401, problem(401, detail="a token is needed"))
    assert str(failure) == ("http://a: a token is needed; give a token with --token-file or STEELYARD_TOKEN")


def test_help_and_the_page_list_every_exit_status() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "steelyard_controller.cli", "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "10000"},
    )  # fmt: skip
    page = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()
    for status, meaning in MEANINGS.items():
        assert f"  {status:<4d}{meaning}\n" in done.stdout
        assert f"| {status:d} | {meaning} |" in page


def test_the_page_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert {"status", "weights", "explain", "drain", "undrain", "pin", "unpin", "watch"} <= set(commands)
    page = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()
    for command in commands:
        assert f"`steelyard {command}" in page


DERIVED = json.loads((Path(__file__).parents[3] / "docs/contract/derived-keys.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("agent", "web/server-1"), DERIVED["keys"]["agent web/server-1"]),
        (("agents",), DERIVED["keys"]["agents"]),
        (("lb", "edge-1"), DERIVED["load_balancer"]["key"]),
        (("token", "web/server-1"), DERIVED["token"]["token"]),
    ],
)
def test_keys_prints_what_the_examples_say(
    arguments: tuple[str, ...], printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = tmp_path / "key"
    file.write_text(f"{DERIVED['shared']}\n")
    assert main(["keys", *arguments, "--key-file", str(file)]) == 0
    assert capsys.readouterr().out == f"{printed}\n"
    monkeypatch.setenv("STEELYARD_KEY", DERIVED["shared"])
    assert main(["keys", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == printed


@pytest.mark.parametrize(
    ("arguments", "key", "message"),
    [
        (("agent", "server-1"), DERIVED["shared"], "write it as UPSTREAM/SERVER"),
        (("token", "web/-"), DERIVED["shared"], "cannot be the name of a server"),
        (("lb", "a/b"), DERIVED["shared"], "cannot be the name of a load balancer"),
        (("lb", "edge-1"), None, "name its file with --key-file"),
        (("lb", "edge-1"), "short", "a key has at least 16 bytes"),
        (("lb", "edge-2"), DERIVED["load_balancer"]["key"], "other keys derive from the shared one only"),
    ],
)
def test_keys_refuses_what_gives_no_key(
    arguments: tuple[str, str], key: str | None, message: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("STEELYARD_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("STEELYARD_KEY", key)
    assert main(["keys", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_command_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["dance"])
    assert caught.value.code == Exit.USAGE
    assert "dance" in capsys.readouterr().err


def test_laws_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["laws", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [law["name"] for law in document["laws"]] == list(laws.NAMES)
    (first, *_) = document["laws"][0]["parameters"]
    assert set(first) == {"name", "default", "low", "high", "unit", "reason"}
