"""Counts in a file that outlive a process which ends without a word: libFuzzer leaves by _exit."""

import json
import mmap
from collections import Counter
from pathlib import Path

# Some ten reasons with a number each.
SIZE = 16_384


class Writer:
    """Adds counts; each is in the file at once, whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(SIZE)
            self._shared = mmap.mmap(file.fileno(), SIZE)
        self._slots: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Count one more of a name; a new name takes a line of the file."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._open(name)
        count = int.from_bytes(self._shared[slot : slot + 8], "little")
        self._shared[slot : slot + 8] = (count + 1).to_bytes(8, "little")

    def _open(self, name: str) -> int:
        text = json.dumps(name[:80]).encode()
        slot = len(self._slots) * 128
        if slot + 128 > SIZE:
            raise ValueError(f"more than {SIZE // 128} different outcomes; {name!r} is one too many")
        self._shared[slot + 8 : slot + 8 + len(text)] = text
        return slot


def read(path: Path) -> Counter[str]:
    """Return what was counted; nothing where there is no file."""
    counts: Counter[str] = Counter()
    data = path.read_bytes() if path.exists() else b""
    for slot in range(0, len(data) - 127, 128):
        text = data[slot + 8 : slot + 128].rstrip(b"\0")
        if text:
            counts[json.loads(text)] += int.from_bytes(data[slot : slot + 8], "little")
    return counts
