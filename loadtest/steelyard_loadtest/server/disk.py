"""The I/O work of one request: a temporary file, written, synced, read back and removed."""

import os
import tempfile
import time

CHUNK_BYTES = 1024**2


def write_sync_read(size: int) -> float:
    """Write `size` bytes to a file without a name, fsync, read them back; give the seconds it took.

    Raises OSError where the disk is full or not writable.
    """
    started_s = time.monotonic()
    with tempfile.TemporaryFile() as file:
        for offset in range(0, size, CHUNK_BYTES):
            # Not zeros: some file systems and disks store those without writing.
            file.write(os.urandom(min(CHUNK_BYTES, size - offset)))
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        while file.read(CHUNK_BYTES):
            pass
    return time.monotonic() - started_s
