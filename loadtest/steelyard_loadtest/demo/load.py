"""Runs locust as a process of its own, so that its load does not wait for what the demo does meanwhile."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from steelyard_loadtest.demo.options import Plan
from steelyard_loadtest.demo.reach import ClusterError

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
START_S = 30.0  # locust imports for seconds on a busy machine
FINISH_S = 15  # requests under way at the end are waited for: leaving out the slowest would flatter the tail
SPARE_S = 60  # if the demo is killed, locust ends by itself this long after the phase should have


class Load:
    """Locust, sending one phase's requests to base_url; its files go to `folder`."""

    def __init__(self, plan: Plan, base_url: str, folder: Path) -> None:
        self.requests_file = folder / f"requests-{plan.name}.csv"
        self._log_file = folder / f"locust-{plan.name}.log"
        self._ready_file = folder / f".ready-{plan.name}"
        self._ready_file.unlink(missing_ok=True)
        command = [
            *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary"),
            *("--host", base_url, "--users", str(plan.users), "--spawn-rate", str(plan.users)),
            *("--run-time", f"{plan.seconds + SPARE_S}s", "--stop-timeout", str(FINISH_S)),
            *("--loglevel", "WARNING"),
        ]
        environment = os.environ | {
            "STEELYARD_DEMO_PATH": plan.path,
            "STEELYARD_DEMO_USER_RATE": repr(plan.rate / plan.users),
            "STEELYARD_DEMO_REQUESTS": str(self.requests_file),
            "STEELYARD_DEMO_READY": str(self._ready_file),
        }
        with self._log_file.open("w") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is the demo's to handle: locust must still write its file
            )

    def wait_until_running(self) -> float:
        """Wait until all users run and give the monotonic time of that. Raises ClusterError."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            self.check()
            with contextlib.suppress(FileNotFoundError):
                began_s = float(self._ready_file.read_text())
                self._ready_file.unlink()
                return began_s
            time.sleep(0.05)
        raise ClusterError(f"locust did not start within {START_S:.0f} s; its log is {self._log_file}")

    def check(self) -> None:
        """Raise ClusterError when locust has ended by itself."""
        if self._process.poll() is not None:
            last = self._log_file.read_text().strip().splitlines()[-5:]
            raise ClusterError("locust ended early; its log's last lines:\n" + "\n".join(last))

    def stop(self) -> None:
        """Let requests under way finish (a second Ctrl-C does not wait), then end locust."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(FINISH_S + 10)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            self._process.wait()
        self._ready_file.unlink(missing_ok=True)
