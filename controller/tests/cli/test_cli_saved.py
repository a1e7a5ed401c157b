"""`save`, any changes over REST, `apply`: on a real controller and Redis."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from steelyard_controller.declarations.upstream import Peer, Upstream

from testing.daemons import Daemon
from testing.waiting import wait_until

from ..declarations.drawn_declarations import IDS, documents
from ..declarations.test_saved_section import SLOW, brought_back
from ..discovery.recorded_api import RecordedApi, endpoint_slice, service
from ..processes import LOCAL, own_token
from .test_cli_integration import Ran, running, steelyard

__all__ = ["steelyard"]  # a fixture

pytestmark = pytest.mark.integration

UPSTREAM, SERVER = documents(Upstream), documents(Peer)

# A change over REST: method, the id of a server or None, document.
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("PUT"), st.none(), UPSTREAM),
        st.tuples(st.just("PUT"), st.sampled_from(IDS), SERVER),
        st.tuples(st.just("PATCH"), st.sampled_from(IDS), SERVER),
        st.tuples(st.just("DELETE"), st.sampled_from(IDS), st.none()),
    ),
    max_size=6,
)


def test_apply_does_what_its_dry_run_says_and_brings_back_what_was_saved(
    memcached: Daemon, redis_server: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    file = tmp_path / "saved.yaml"
    flags = ("--state-url", f"redis://{redis_server.address}/0")
    with running(memcached, tmp_path, *flags, declared="{}\n") as controller:
        url = f"{controller.url}/v1/upstreams/web"

        def run(*arguments: str) -> Ran:
            return steelyard("--url", controller.url, *arguments)

        def change(method: str, server: str | None, document: dict[str, Any] | None) -> None:
            """Change the declaration; a change that is refused, or of an unknown server, changes nothing."""
            headers = own_token() | {"Content-Type": "application/json"}
            if method == "PATCH":
                headers["Content-Type"] = "application/merge-patch+json"
            where = url if server is None else f"{url}/peers/{server}"
            if server is not None and document is not None:
                document = {name: value for name, value in document.items() if name != "id"}
            body = None if document is None else json.dumps(document)
            answer = LOCAL.request(method, where, content=body, headers=headers)
            assert answer.status_code in {200, 201, 204, 404, 409, 422}, answer.text

        def declared() -> Upstream:
            return Upstream.model_validate_json(LOCAL.get(f"{url}/declaration").content)

        # Shrinking would run hundreds of commands.
        @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=SLOW)
        @given(saved=UPSTREAM, changes=CHANGES, prune=st.booleans())
        def holds(saved: dict[str, Any], changes: list[Any], prune: bool) -> None:
            change("PUT", None, saved)
            before = declared()
            ran = run("save", "web")
            assert ran.status == 0, ran.err
            file.write_text(ran.out)
            for each in changes:
                change(*each)
            now = declared()
            flags = ["--prune"] if prune else []
            dry = run("apply", str(file), *flags, "--dry-run")
            assert declared() == now
            done = run("apply", str(file), *flags)
            assert dry.status == done.status
            try:
                wanted = Upstream(**brought_back(before, now, prune=prune))
            except ValidationError:
                assert (done.status, declared()) == (2, now)
                return
            assert done.status == 0, done.err
            assert declared().model_copy(update={"peers": []}) == wanted.model_copy(update={"peers": []})
            assert {peer.id: peer for peer in declared().peers} == {peer.id: peer for peer in wanted.peers}
            assert dry.out == done.out.replace("web: ", "web: would be: ", 1)
            assert run("apply", str(file), *flags).out == "web: nothing to do\n"

        holds()


def test_pruning_says_that_pods_stay_because_the_controller_keeps_them(
    memcached: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steelyard: Callable[..., Ran]
) -> None:
    file, api = tmp_path / "saved.yaml", RecordedApi(tmp_path)
    api.put(service("web"), endpoint_slice("pod=10.0.0.1"))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    with contextlib.ExitStack() as stack:
        stack.callback(api.stop)
        controller = stack.enter_context(
            running(memcached, tmp_path, "--kubernetes", "shop", declared="{}\n")
        )
        url = f"{controller.url}/v1/upstreams/web"
        wait_until(lambda: LOCAL.get(url).status_code == 200)

        def run(*arguments: str) -> Ran:
            return steelyard("--url", controller.url, *arguments)

        def declare(server: str) -> None:
            document = {"address": f"{server}:80"}
            assert LOCAL.put(f"{url}/peers/{server}", json=document, headers=own_token()).is_success

        declare("saved")
        assert run("drain", "web", "pod").status == 0
        file.write_text(run("save").out)
        assert "pod" not in file.read_text()
        assert run("apply", str(file), "--prune", "--dry-run").out == "web: would be: nothing to do\n"
        assert run("apply", str(file), "--prune").out == "web: nothing to do\n"
        declare("later")
        assert run("apply", str(file), "--prune", "--dry-run").out == "web: would be: later removed\n"
        assert run("apply", str(file), "--prune").out == "web: later removed\n"
        peers = LOCAL.get(f"{url}/declaration").json()["peers"]
        assert {peer["id"]: peer["state"] for peer in peers} == {"saved": "up", "pod": "drain"}
        assert run("apply", str(file), "--replace").out == "web: nothing to do\n"
