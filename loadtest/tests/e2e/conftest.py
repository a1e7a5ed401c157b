"""One cluster for all end-to-end tests: a start takes ten processes of Python."""

from collections.abc import Iterator

import pytest

from .e2e_cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that runs; each test leaves it running, but for the last one (test_down_e2e.py)."""
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    up = started.command("up")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        yield started
    finally:
        down = started.command("down")
        assert down.returncode == 0, down.stderr
