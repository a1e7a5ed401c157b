"""Parsers of files in /proc and /sys that psutil does not read (proc(5), sysfs, PSI).

Pure: bytes in, values out; ValueError if the kernel does not write such a text.
"""

from collections.abc import Mapping

BYTES_PER_S_IN_A_MEGABIT = 125_000

# -1 in 16 and in 32 bits, as older drivers write it. No NIC has these speeds.
UNKNOWN_SPEEDS = (2**16 - 1, 2**32 - 1)

# The fields of a line of /proc/diskstats with the time of reads, writes, discards and flushes.
REQUEST_TIMES = (6, 10, 17, 19)

LISTEN = b"0A"  # TCP_LISTEN of net/tcp_states.h, as /proc/net/tcp writes it


def parse_cpu_list(text: bytes) -> int | None:
    """Read a list of CPUs such as `0-3,8`: their number, None for an empty one."""
    count = 0
    for part in filter(None, text.strip().split(b",")):
        first, _, last = part.partition(b"-")
        count += int(last or first) - int(first) + 1
    return count or None


def parse_speed(text: bytes) -> float | None:
    """Read /sys/class/net/*/speed (Mbit/s) as bytes/s; -1 is a virtual NIC or one without a link."""
    megabits_per_s = int(text)
    known = megabits_per_s > 0 and megabits_per_s not in UNKNOWN_SPEEDS
    return megabits_per_s * BYTES_PER_S_IN_A_MEGABIT if known else None


def parse_stalled_s(text: bytes) -> float:
    """Read a pressure file: the seconds with some stalled task (the total of its `some` line)."""
    for line in text.splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) / 1e6
    raise ValueError("it has no line `some`")


def parse_flat(text: bytes) -> Mapping[str, int]:
    """Read a file of `name number` lines, such as cpu.stat and memory.stat."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0].decode(errors="replace"): int(pair[1]) for pair in pairs if len(pair) == 2}


def flat_value(text: bytes, name: str) -> int:
    """Read one number of such a file, in a tenth of the time; KeyError if it is missing."""
    _, separator, rest = (b"\n" + text).partition(f"\n{name} ".encode())
    if not separator:
        raise KeyError(name)
    return int(rest.partition(b"\n")[0])


def parse_diskstats(text: bytes) -> dict[str, tuple[int, int, int]]:
    """Read /proc/diskstats: the ms with a request, the ms of all ended requests, the requests in flight.

    By device. Kernels before 4.18 have no discards, and those before 5.5 no flushes (iostats.rst).
    """
    disks = {}
    for fields in (line.split() for line in text.splitlines()):
        if len(fields) > 12:
            times = [int(fields[at]) for at in REQUEST_TIMES if at < len(fields)]
            disks[fields[2].decode(errors="replace")] = (int(fields[12]), sum(times), int(fields[11]))
    return disks


def parse_arc(text: bytes) -> tuple[int, int]:
    """Read ZFS's arcstats: the size of its cache in bytes, and the size that it keeps at least.

    Two lines of heads, then lines of `name type number` (OpenZFS, zfs_arc kstat).
    """
    numbers = {}
    for fields in (line.split() for line in text.splitlines()[2:]):
        if len(fields) == 3 and fields[0] in {b"size", b"c_min"}:
            numbers[fields[0]] = int(fields[2])
    if len(numbers) < 2:
        raise ValueError("it has no lines `size` and `c_min`")
    return numbers[b"size"], numbers[b"c_min"]


def parse_net_dev(text: bytes) -> dict[str, tuple[int, int]]:
    """Read /proc/<pid>/net/dev: the received and sent bytes of each NIC."""
    counted = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(b":")
        fields = rest.split()
        if len(fields) > 8:
            counted[name.strip().decode(errors="replace")] = (int(fields[0]), int(fields[8]))
    return counted


def parse_listeners(text: bytes, port: int) -> set[int]:
    """Read /proc/net/tcp or tcp6: the inodes of the sockets listening on a port."""
    inodes = set()
    # A busy server has tens of thousands of connections and few listeners.
    lines = (line for line in text.splitlines()[1:] if LISTEN in line)
    for fields in (line.split() for line in lines):
        if len(fields) > 9 and fields[3] == LISTEN and int(fields[1].rpartition(b":")[2], 16) == port:
            inodes.add(int(fields[9]))
    return inodes


def parse_socket_link(link: str) -> int | None:
    """Read the target of the link /proc/<pid>/fd/<n>: the inode, if it is a socket."""
    inode = link.removeprefix("socket:[").removesuffix("]")
    return int(inode) if link.startswith("socket:[") and inode.isdigit() else None


def parse_pid(text: bytes) -> int | None:
    """Read a PID file: the number in its first line, or None if there is none."""
    first = text.lstrip().split(b"\n", 1)[0].strip()
    return int(first) if first.isdigit() and len(first) <= 10 and int(first) > 0 else None
