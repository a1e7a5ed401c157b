"""The mark of tests that need the process scope, and with it psutil 7."""

import psutil
import pytest
from steelyard_agent.readers.scope import PROCESS_NEEDS_PSUTIL

needs_process_scope = pytest.mark.skipif(
    psutil.version_info < PROCESS_NEEDS_PSUTIL,
    reason=f"the process scope needs psutil {PROCESS_NEEDS_PSUTIL[0]} or later",
)
