"""Settings of all tests, and fixtures of common daemons. Helpers for import are in testing/."""

import gc
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from testing import haproxy_under_test, nginx_under_test
from testing.daemons import Daemon, memcached_in, redis_in

# The collector would look through all that imports and collection make, again and again, and free nothing.
gc.disable()

# Tests assert no wall-clock time, and this machine may be a busy one.
# A run draws half as many examples as by default, and the next run draws others.
settings.register_profile("steelyard", deadline=None, max_examples=50)
settings.load_profile("steelyard")

# The marks of all tests of a file.
OF_ALL_TESTS = re.compile(r"^pytestmark = (\[[^\]]*\]|.*)", re.MULTILINE)
MARK = re.compile(r"pytest\.mark\.(\w+)")

# Tests start Python some thousand times. Some images tell Python to keep no compiled code. Each start would
# then compile all imports again, for more CPU time than the rest of the process.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# argparse would look for translations of each of its words in the file system: a fifth of a parser's time.
os.environ["LANGUAGE"] = "C"

# A shell starts background jobs with Ctrl-C ignored, and their children inherit that. Tests of Ctrl-C would
# then wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    """Put nginx and HAProxy under test on PATH, before collection: some tests ask nginx for its features."""
    # Debian keeps nginx in a folder of root's PATH.
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], "/usr/local/sbin", "/usr/sbin"])
    for program in (haproxy_under_test, nginx_under_test):
        named = os.environ.get(program.VARIABLE)
        if named:
            try:
                program.put_on_path(named)
            except ValueError as error:
                raise pytest.UsageError(str(error)) from None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that `-m` selects no test of, because every worker imports each collected file."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    # "integration and not long" demands the first mark and excludes the second; other expressions are not
    # evaluated.
    terms = config.getoption("markexpr").split(" and ")
    demanded = [each for each in terms if each.isidentifier()]
    excluded = {each.removeprefix("not ") for each in terms if each.startswith("not ")}
    text = collection_path.read_text(encoding="utf-8") if demanded or excluded else ""
    of_all = OF_ALL_TESTS.search(text)
    lacks_one = any(f"pytest.mark.{mark}" not in text for mark in demanded)
    return lacks_one or (of_all is not None and not excluded.isdisjoint(MARK.findall(of_all[0]))) or None


def pytest_collection_finish() -> None:
    """Let the garbage collector skip what imports and collection made; it took a tenth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    # The default, 700, is for small heaps. Reference counts free almost everything at once.
    gc.set_threshold(10_000, 10, 10)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the failure of each test that ran again (`make integration`), whether it then passed or not."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, and ran again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(scope="session", autouse=True)
def _state_home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    # A controller without an admin token keeps its own one there.
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def memcached(tmp_path: Path) -> Iterator[Daemon]:
    """A Memcached of its own for the test."""
    with memcached_in(tmp_path) as one:
        yield one


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Daemon]:
    """A Redis of its own for the test, without persistence."""
    with redis_in(tmp_path) as one:
        yield one
