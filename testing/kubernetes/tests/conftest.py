"""One real Kubernetes API for all the tests here; each has a namespace of its own."""

from collections.abc import Iterator

import pytest

from .kube_api import CLIENTS, SERVERS, KubeApi


@pytest.fixture(scope="session")
def kube_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApi]:
    """An empty server."""
    if not all((folder / "made-of").exists() for folder in (CLIENTS, SERVERS)):
        pytest.fail("kube-apiserver is not built: `make kubernetes-test` does it")
    api = KubeApi(tmp_path_factory.mktemp("kubernetes"))
    yield api
    api.end()
