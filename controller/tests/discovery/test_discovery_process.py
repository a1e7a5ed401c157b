"""A controller process with discovery: its errors at the start, and its end."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing import warm_start
from testing.waiting import wait_until

from ..processes import LOCAL, controller
from .recorded_api import RecordedApi, endpoint_slice, service

pytestmark = pytest.mark.integration


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RecordedApi]:
    """A server with one Service of one pod."""
    made = RecordedApi(tmp_path)
    made.put(service("shop"), endpoint_slice("a=10.0.0.1", service="shop"))
    yield made
    made.stop()


def refused(kubeconfig: Path, before: str = "") -> str:
    """Return the error of a controller that does not start."""
    command = [sys.executable, "-m", "steelyard_controller", "--kubernetes=all", "--state-url=memory://"]
    done = warm_start.run(command, before=before, env={"KUBECONFIG": str(kubeconfig)})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_without_the_client_it_names_the_extra(tmp_path: Path) -> None:
    assert refused(tmp_path / "none", "sys.modules['kubernetes'] = None") == (
        "steelyard-controller: kubernetes: the Kubernetes client is not installed: pip install "
        "'steelyard-controller[kubernetes]', or leave STEELYARD_KUBERNETES out\n"
    )


def test_without_a_cluster_it_says_what_to_name(tmp_path: Path) -> None:
    said = refused(tmp_path / "none")
    assert "there is no configuration for the API server" in said
    assert "name a kubeconfig in KUBECONFIG" in said


@pytest.mark.parametrize("illness", [None, "hang", "drip"])
def test_it_ends_while_a_watch_or_a_list_waits(api: RecordedApi, tmp_path: Path, illness: str | None) -> None:
    api.illness = illness
    environment = {"KUBECONFIG": str(api.kubeconfig), "STEELYARD_KUBERNETES": "shop"}
    with controller(tmp_path, "--state-url=memory://", environment=environment) as one:
        one.wait("leader")
        wait_until(lambda: api.watching == 2 if illness is None else api.requests)
        if illness is None:
            wait_until(lambda: LOCAL.get(f"{one.url}/v1/upstreams/shop/peers").status_code == 200)
        one.stop()
