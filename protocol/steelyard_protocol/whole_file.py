"""Replaces a file in one step: on a full disk the earlier file stays as it was. I/O only."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield the path of a new file beside this one, with the same suffix; then put it in its place.

    If the block or the rename raises, the new file is removed. A device or a pipe is not replaced: the block
    writes to it. Raises OSError.
    """
    file = file.resolve()  # a link stays, and its target is replaced
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        yield file
        return
    fresh = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    try:
        yield fresh
        # Some file systems report a full disk only now, and a rename may reach the disk before the content.
        with fresh.open("rb") as stream:
            os.fsync(stream.fileno())
        if mode is not None:
            fresh.chmod(stat.S_IMODE(mode))
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write(file: Path, data: bytes) -> None:
    """Write a file in one step; raise OSError."""
    with replacing(file) as fresh:
        fresh.write_bytes(data)
