"""Requests for pods to an API server over TLS: their content, and every way to fail."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from steelyard_agent.pods.api_client import ApiClient, ApiFault
from steelyard_agent.pods.pod_list import PodList

from testing.pods_api_server import (
    TOKEN,
    PodsApiServer,
    pod,
    pod_list,
    pods_api_server,
    refusal,
)

pytestmark = pytest.mark.integration

UID = "0a1b2c3d-1111-4222-8333-444455556666"

# Long enough for a loaded machine, if an answer is expected.
PATIENT_S = 30.0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[PodsApiServer]:
    with pods_api_server(tmp_path / "account") as running:
        running.body = pod_list(pod("web-1", UID))
        yield running


def client_of(api: PodsApiServer, timeout_s: float = PATIENT_S) -> ApiClient:
    return ApiClient(("localhost", api.port), api.folder, "node-1", timeout_s=timeout_s)


def fault(answer: PodList | ApiFault) -> ApiFault:
    assert isinstance(answer, ApiFault)
    assert "\n" not in answer.why
    return answer


def test_the_pods_are_asked_for_with_the_service_accounts_token(api: PodsApiServer) -> None:
    answer = client_of(api)()
    assert isinstance(answer, PodList)
    assert [one.name for one in answer.pods] == ["web-1"]
    ((path, headers),) = api.asked
    assert path.startswith("/api/v1/pods?")
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["accept"].startswith("application/json;as=PartialObjectMetadataList")


def test_a_token_that_was_replaced_is_read_again(api: PodsApiServer) -> None:
    ask = client_of(api)
    ask()
    (api.folder / "token").write_text("another.token\n")
    ask()
    assert [headers["authorization"] for _, headers in api.asked] == [
        f"Bearer {TOKEN}",
        "Bearer another.token",
    ]


def test_without_rights_the_api_servers_words_and_the_remedy_are_said(api: PodsApiServer) -> None:
    api.status = 403
    detail = (
        'pods is forbidden: User "system:serviceaccount:a:agent" cannot list resource "pods"\nin the cluster'
    )
    api.body = refusal(403, "Forbidden", detail)
    refused = fault(client_of(api)())
    assert refused.kind == "403"
    assert refused.why.startswith(
        f"the API server at localhost:{api.port} answers 403: pods is forbidden: User"
    )
    assert refused.why.endswith(
        "in the cluster: the ServiceAccount needs a ClusterRole with the right to list pods"
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b'{"message": 7}', b"[" * 100_000])
def test_an_error_that_says_nothing_is_one_too(api: PodsApiServer, body: bytes) -> None:
    api.status, api.body = 500, body
    assert fault(client_of(api)()).kind == "500"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", json.dumps({"items": 7}).encode(), b"[" * 100_000])
def test_an_answer_that_is_no_list_is_a_fault(api: PodsApiServer, body: bytes) -> None:
    api.body = body
    assert fault(client_of(api)()).kind == "malformed"


def test_another_certificate_is_not_trusted(api: PodsApiServer, tmp_path: Path) -> None:
    with pods_api_server(tmp_path / "other") as other:
        (api.folder / "ca.crt").write_bytes((other.folder / "ca.crt").read_bytes())
        refused = fault(client_of(api)())
    assert refused.kind == "no answer"
    assert "its certificate is not trusted" in refused.why
    assert api.asked == []


@pytest.mark.parametrize("file", ["token", "ca.crt"])
def test_a_file_of_the_service_account_that_is_not_there_is_named(api: PodsApiServer, file: str) -> None:
    (api.folder / file).unlink()
    assert fault(client_of(api)()).kind == "token"


@pytest.mark.parametrize(
    ("file", "text"), [("token", b"\xff\xfe"), ("ca.crt", b"no certificate"), ("ca.crt", b"")]
)
def test_a_file_of_the_service_account_that_is_none_is_a_fault(
    api: PodsApiServer, file: str, text: bytes
) -> None:
    (api.folder / file).write_bytes(text)
    assert fault(client_of(api)()).kind == "token"


def test_an_api_server_that_is_away_is_a_fault(api: PodsApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = fault(ApiClient(("localhost", port), api.folder, "node-1", timeout_s=PATIENT_S)())
    assert (refused.kind, refused.why) == (
        "no answer",
        f"the API server at localhost:{port} cannot be asked: Connection refused",
    )


def test_an_api_server_that_never_answers_costs_the_time_of_one_question(api: PodsApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        refused = fault(ApiClient(("localhost", port), api.folder, "node-1", timeout_s=0.1)())
    assert refused.why == f"the API server at localhost:{port} does not answer within 0.1 s"
