"""The OpenAPI document: complete for a generator, and true: schemathesis tries the live server."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from steelyard_controller import laws

from testing.daemons import Daemon

from ..processes import LOCAL, controller
from .serving import ADMIN, READ, WEB, bearer, serving

FOLDER = Path(__file__).parent
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    with serving(tokens={"admin": [ADMIN], "read": [READ]}) as api:
        described: dict[str, Any] = api.get("/openapi.json").json()
    return described


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_has_a_name_a_tag_and_a_summary(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names) == 21
    assert all(operation["tags"] and operation["description"] for _, _, operation in operations(document))


def test_every_error_is_a_problem_document(document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        errors = {status: each for status, each in operation["responses"].items() if status >= "400"}
        assert errors or path == "/healthz"
        for each in errors.values():
            assert each["content"] == {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def test_every_answer_and_every_body_has_a_model(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        bodies = [operation["requestBody"]] if method in ("put", "patch") else []
        answers = [each for status, each in operation["responses"].items() if status in ("200", "201")]
        for each in [*bodies, *answers]:
            for media_type, content in each["content"].items():
                if media_type.endswith("json"):
                    assert content["schema"]["$ref"].startswith("#/components/schemas/"), (path, method)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for name in {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_the_laws_are_named(document: dict[str, Any]) -> None:
    assert document["components"]["schemas"]["Upstream"]["properties"]["law"]["enum"] == list(laws.NAMES)


def test_it_says_what_needs_a_token_here(document: dict[str, Any]) -> None:
    with serving() as api:
        without = api.get("/openapi.json").json()
    for path, method, operation in operations(document):
        needs: list[dict[str, Any]] = [] if path in ("/healthz", "/readyz") else [{"token": []}]
        assert operation["security"] == needs
        optional: list[dict[str, Any]] = [{}] if method == "get" and path != "/v1/audit" else []
        assert without["paths"][path][method]["security"] == (needs and [{"token": []}, *optional])


def test_the_examples_of_the_bodies_are_taken(document: dict[str, Any]) -> None:
    with serving() as api:
        for path, method, operation in operations(document):
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                for example in content["examples"].values():
                    answer = api.request(
                        method,
                        path.format(upstream="web", peer="server-1"),
                        content=json.dumps(example["value"]),
                        headers={"Content-Type": media_type},
                    )
                    assert answer.status_code == 200, answer.text


def test_a_stranger_is_refused_by_every_operation_whatever_is_sent(document: dict[str, Any]) -> None:
    with serving(tokens={"admin": [ADMIN], "read": [READ]}) as api:
        for path, method, operation in operations(document):
            if not operation["security"]:
                continue
            for name in ("web", "no-such-upstream", "%F0%9F%92%A3"):
                for body in (b"", b"{", b"[1]", json.dumps(WEB).encode()):
                    answer = api.request(method, path.format(upstream=name, peer="server-1"), content=body)
                    assert answer.status_code == 401, (path, method)
                    assert answer.headers["Content-Type"] == PROBLEM
                    assert answer.json()["status"] == 401


@pytest.mark.integration
@pytest.mark.timeout(240)
def test_schemathesis_finds_nothing(tmp_path: Path, memcached: Daemon) -> None:
    tokens = {"STEELYARD_ADMIN_TOKEN": ADMIN, "STEELYARD_READ_TOKEN": READ}
    tool = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    assert tool, "schemathesis is not installed: run `make setup-tests`"
    flags = ("--state-url", "memory://", "--memcached", memcached.address)
    with controller(tmp_path, *flags, environment=tokens) as one:
        one.wait("leader")
        for name in ("web", "shop"):
            LOCAL.put(f"{one.url}/v1/upstreams/{name}", json=WEB, headers=bearer(ADMIN)).raise_for_status()
        ran = subprocess.run(
            [
                tool, f"--config-file={FOLDER / 'schemathesis.toml'}", "run", f"{one.url}/openapi.json",
                # With --max-time, it would repeat its phases until then. Nine in ten cases are boundary
                # values; these examples are beyond them.
                "--no-color", "--header", f"Authorization: Bearer {ADMIN}", "--max-examples", "5",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        assert "Tested: 20" in ran.stdout, ran.stdout
        assert LOCAL.get(f"{one.url}/healthz").status_code == 200
        log = one.log.read_text()
        assert "Traceback" not in log
        assert ADMIN not in log
        assert READ not in log
