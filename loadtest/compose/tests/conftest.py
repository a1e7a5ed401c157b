"""One cluster in containers for all tests here; each leaves it whole."""

import subprocess
from collections.abc import Iterator

import pytest

from testing.daemons import free_port
from testing.visitors import Visitors

from .stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The cluster, up and working."""
    engine = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    if engine.returncode != 0:
        pytest.fail(f"no Docker engine answers; deploy/compose/test starts one: {engine.stderr.strip()}")
    stack = Stack(tmp_path_factory.mktemp("compose"), [free_port() for _ in range(6)])
    stack.up()
    yield stack
    stack.down()


@pytest.fixture
def visitors(stack: Stack) -> Iterator[Visitors]:
    """Requests throughout the test; the first hundred are answered."""
    # About a third of what the three servers can do, which have one core together. Each new connection would
    # cost the engine's proxy and the kernel's table of connections.
    with Visitors(stack.lb_port, requests_per_s=90, connections=12) as visitors:
        visitors.next(100)
        yield visitors
