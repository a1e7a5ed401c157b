"""wrk, which makes the load."""

import subprocess
from pathlib import Path

from steelyard_loadtest.dataplane.records import Load, parse_load
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError

REQUEST_TIMEOUT_S = 5
SPARE_S = 30.0


def run(wrk: str, url: str, *, script: Path, connections: int, seconds: int) -> Load:
    """Load a URL over kept connections from one thread. Raises ProgramError."""
    command = [
        *(wrk, "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"),
        *("--timeout", f"{REQUEST_TIMEOUT_S}s", "--script", str(script), url),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + SPARE_S,
            start_new_session=True,
        )
        return parse_load(done.stdout + done.stderr)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"wrk did not end {SPARE_S:.0f} s after its time") from None
    except UnreadableError as error:
        raise ProgramError(str(error)) from None
