"""The rig of a test of the data plane."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from openresty.tests.engine import Engine
from openresty.tests.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Return a memcached, and the means to start an nginx and servers."""
    for daemon in ("nginx", "memcached"):
        if shutil.which(daemon) is None:
            pytest.fail(f"{daemon} is not installed: run `make setup-tests`")
    made = Rig(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    """Return three engines."""
    made = [Engine(name) for name in "abc"]
    yield made
    for engine in made:
        engine.stop()
