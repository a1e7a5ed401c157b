"""What holds for every test, and the daemons that most ask for. What tests import is in testing/."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from testing import nginx_under_test
from testing.daemons import Daemon, memcached_in, redis_in

# Tests assert no wall-clock time, and this machine may be a busy one.
settings.register_profile("steelyard", deadline=None)
settings.load_profile("steelyard")

# Tests start Python some thousand times. Where an image has told it to keep no compiled code, each start
# would compile all that it imports again: more CPU time than everything else that these processes do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what it runs in the background with Ctrl-C ignored, and programs inherit that: the tests of
# what Ctrl-C does would wait for it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    """Put what is tested on PATH: before the tests are collected, since some ask nginx what it can do."""
    # Debian keeps nginx where only root's PATH looks.
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], "/usr/local/sbin", "/usr/sbin"])
    named = os.environ.get(nginx_under_test.VARIABLE)
    if named:
        try:
            nginx_under_test.put_on_path(named)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file without the marks that `-m` demands: every worker imports all that it collects."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    # "integration and not long" demands the first; of any other expression nothing is concluded.
    demanded = [each for each in config.getoption("markexpr").split(" and ") if each.isidentifier()]
    text = collection_path.read_text(encoding="utf-8") if demanded else ""
    return True if any(f"pytest.mark.{mark}" not in text for mark in demanded) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why each test failed that was tried again (`make integration`), and passed or not."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, and tried again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(scope="session", autouse=True)
def _state_home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    # A controller without an admin token keeps one of its own there.
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def memcached(tmp_path: Path) -> Iterator[Daemon]:
    """A Memcached of its own for the test."""
    with memcached_in(tmp_path) as one:
        yield one


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Daemon]:
    """A Redis of its own for the test, which keeps nothing."""
    with redis_in(tmp_path) as one:
        yield one
