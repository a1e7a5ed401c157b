#!/usr/bin/env bash
# psutil doubles a counter that falls by one.
#
# Versions:  psutil 7.2.2 (PyPI)
# Expected:  nowrap=True, the default of net_io_counters() and disk_io_counters(), detects counters that "overflow and
#            wrap (restart from 0)" and adds the old value to the new one (psutil's reference). A counter that falls
#            from 1,000,000 to 999,999 bytes did not restart.
# Seen:      it reads 1,999,999, and all later readings are a million too large. An interface that was removed and made
#            again (a container's veth) keeps the bytes of the former one. Any smaller value counts as a wrap, and
#            Linux's drivers do not promise that sums over queues never fall.
# Steelyard: readers/machine_counters.py reads with nowrap=False, and a smaller value is the start of a new count.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
  --target "$folder/packages" psutil==7.2.2
PYTHONPATH="$folder/packages" python3 -s - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import psutil

proc = Path(sys.argv[1])
(proc / "net").mkdir()
psutil.PROCFS_PATH = str(proc)
HEAD = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
"""


def read(received: int) -> tuple[int, int]:
    """Return the received bytes of eth0 as psutil reads them, by default and with nowrap=False."""
    (proc / "net/dev").write_text(f"{HEAD}  eth0: {received} 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n")
    return psutil.net_io_counters().bytes_recv, psutil.net_io_counters(nowrap=False).bytes_recv


readings = [read(received) for received in (1_000_000, 999_999, 1_000_100)]
print(f"psutil {psutil.__version__}, by default and with nowrap=False: {readings}")
assert readings == [(1_000_000, 1_000_000), (1_999_999, 999_999), (2_000_100, 1_000_100)]
PYTHON
