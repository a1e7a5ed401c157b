#!/usr/bin/env bash
# psutil.cpu_percent() is 0.0 in each new thread, on a machine that is busy.
#
# Versions:  psutil 7.2.2 and 5.9.5 (PyPI)
# Expected:  "compares system CPU times elapsed since last call or module import, returning immediately" (psutil's
#            reference). So a server with a thread for each request, such as http.server's, can report it.
# Seen:      each thread has a last call of its own since 5.9.6, which made the function thread-safe. Ten threads that
#            call it once each, 0.1 s apart, read 0.0 on a machine whose counters say 100 %. The main thread reads
#            100.0. With 5.9.5 the threads read 100.0, too.
# Steelyard: the agent reads cpu_times() and makes the difference itself (scopes/machine_utilization.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 7.2.2 5.9.5; do
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$folder/$version" "psutil==$version"
  PYTHONPATH="$folder/$version" python3 -s - "$folder" <<'PYTHON'
import sys
import threading
from pathlib import Path

import psutil

# A /proc whose only core is busy all the time, so that the machine's own load does not matter.
proc = Path(sys.argv[1])
psutil.PROCFS_PATH = str(proc)
ticks = 0


def be_busy() -> None:
    global ticks
    ticks += 100
    (proc / "stat").write_text(f"cpu  {ticks} 0 0 0 0 0 0 0 0 0\ncpu0 {ticks} 0 0 0 0 0 0 0 0 0\nbtime 1\n")


be_busy()
psutil.cpu_percent()
percents: list[float] = []
# All of them live at the same time: a thread that ended leaves its identifier, and its last call, to a later one.
go_on = threading.Event()


def call() -> None:
    percents.append(psutil.cpu_percent())
    go_on.wait()


for number in range(10):
    be_busy()
    threading.Thread(target=call).start()
    while len(percents) <= number:
        pass
go_on.set()
be_busy()
main = psutil.cpu_percent()
print(f"psutil {psutil.__version__}: ten threads read {sorted(set(percents))}, the main thread {main}")
assert percents == [100.0 if psutil.__version__ == "5.9.5" else 0.0] * 10
assert main == 100.0
PYTHON
done
