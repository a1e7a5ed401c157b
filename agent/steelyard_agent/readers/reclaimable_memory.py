"""Linux's used memory that is free in truth: ZFS's cache. I/O only; `kernel_text` parses the text."""

from pathlib import Path

from steelyard_agent import kernel_text
from steelyard_agent.readers.files import below, read_or_none

ARC = "/proc/spl/kstat/zfs/arcstats"


def reclaimable_bytes(root: Path, used_bytes: int) -> int:
    """Return the bytes among the used ones that the kernel gives back, and MemAvailable does not count.

    That is ZFS's cache (ARC) beyond its least size. A cache larger than all used memory is another
    machine's: lxcfs shows a container's memory beside the host's cache.
    """
    text = read_or_none(below(root, ARC))
    if text is None:
        return 0
    size, least = kernel_text.parse_arc(text)
    return max(0, size - least) if size <= used_bytes else 0
