"""The text of files in /proc and /sys, parsed: of a machine and of a process (proc(5), sysfs, PSI).

Pure: bytes in, values out; ValueError or KeyError when the text is not what the kernel writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_agent.scopes.hardware import MemoryGauge

BYTES_PER_S_IN_A_MEGABIT = 125_000

# /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice, in clock ticks. Busy is time
# that no other work could have: not idle or waiting for a disk, but including what the hypervisor stole.
# Guest time is left out because Linux counts it in user and nice already.
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)

LISTEN = b"0A"  # TCP_LISTEN of net/tcp_states.h, as /proc/net/tcp writes it


def parse_busy_ticks(text: bytes) -> int:
    """Read /proc/stat: the busy clock ticks of all cores together."""
    name, *fields = text.split(b"\n", 1)[0].split()
    if name != b"cpu" or len(fields) <= max(BUSY_FIELDS):
        raise ValueError("no cpu line with its eight times")
    return sum(int(fields[field]) for field in BUSY_FIELDS)


def parse_memory(text: bytes) -> MemoryGauge:
    """Read /proc/meminfo (kB, which are 1024 bytes there)."""
    sizes = {name: rest.split() for name, _, rest in (line.partition(b":") for line in text.splitlines())}
    return MemoryGauge(
        total_bytes=int(sizes[b"MemTotal"][0]) * 1024, available_bytes=int(sizes[b"MemAvailable"][0]) * 1024
    )


def parse_net_dev(text: bytes) -> dict[str, tuple[int, int]]:
    """Read /proc/net/dev: bytes received and sent, by interface."""
    counters = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.rpartition(b":")  # an alias has a colon in its own name
        fields = rest.split()
        counters[name.strip().decode(errors="replace")] = int(fields[0]), int(fields[8])
    return counters


def parse_diskstats(text: bytes) -> dict[str, float]:
    """Read /proc/diskstats: seconds in which a device had at least one request, by name."""
    lines = (line.split() for line in text.splitlines())
    # Field 13 are milliseconds in 32 bits; older kernels give partitions seven fields only, without it.
    return {
        fields[2].decode(errors="replace"): int(fields[12]) / 1000 for fields in lines if len(fields) >= 14
    }


def parse_cpu_list(text: bytes) -> int | None:
    """Read a list of CPUs such as `0-3,8`: how many they are, None for an empty one."""
    count = 0
    for part in filter(None, text.strip().split(b",")):
        first, _, last = part.partition(b"-")
        count += int(last or first) - int(first) + 1
    return count or None


def parse_speed(text: bytes) -> float | None:
    """Read /sys/class/net/*/speed (Mbit/s) as bytes/s; -1 is a virtual NIC or one without a link."""
    megabits_per_s = int(text)
    # 2**32 - 1 is how older drivers write -1.
    return megabits_per_s * BYTES_PER_S_IN_A_MEGABIT if 0 < megabits_per_s < 2**32 - 1 else None


def parse_stalled_s(text: bytes) -> float:
    """Read a pressure file: the seconds in which some task was stalled (the total of its `some` line)."""
    for line in text.splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) / 1e6
    raise ValueError("no line that says some")


def parse_flat(text: bytes) -> Mapping[str, int]:
    """Read a file of `name number` lines, such as cpu.stat and memory.stat."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0].decode(errors="replace"): int(pair[1]) for pair in pairs if len(pair) == 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What the agent needs of /proc/<pid>/stat; times in clock ticks, `started_ticks` since boot."""

    name: str
    state: str
    parent_pid: int
    cpu_ticks: int
    reaped_cpu_ticks: int
    threads: int
    started_ticks: int
    rss_pages: int

    @property
    def ended(self) -> bool:
        """Tell whether the process is over and only waits to be reaped."""
        return self.state in "ZXx"


def parse_stat(text: bytes) -> Stat:
    """Read /proc/<pid>/stat. The name is in parentheses and may itself hold spaces and parentheses."""
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < 22:
        raise ValueError(f"a stat line of {len(fields)} fields after the name")
    user, system, reaped_user, reaped_system = (int(field) for field in fields[11:15])
    return Stat(
        name=head.partition(b"(")[2].decode(errors="replace"),
        state=fields[0].decode(errors="replace"),
        parent_pid=int(fields[1]),
        cpu_ticks=user + system,
        reaped_cpu_ticks=reaped_user + reaped_system,
        threads=int(fields[17]),
        started_ticks=int(fields[19]),
        rss_pages=int(fields[21]),
    )


def parse_io_calls(text: bytes) -> int:
    """Read /proc/<pid>/io: how many read and write system calls were made."""
    values = dict(line.split(b": ", 1) for line in text.splitlines() if b": " in line)
    if not {b"syscr", b"syscw"} <= values.keys():
        raise ValueError("no syscr and syscw")
    return int(values[b"syscr"]) + int(values[b"syscw"])


def parse_listeners(text: bytes, port: int) -> set[int]:
    """Read /proc/net/tcp or tcp6: the inodes of the sockets that listen on a port."""
    inodes = set()
    for fields in (line.split() for line in text.splitlines()[1:]):
        if len(fields) > 9 and fields[3] == LISTEN and int(fields[1].rpartition(b":")[2], 16) == port:
            inodes.add(int(fields[9]))
    return inodes


def parse_socket_link(link: str) -> int | None:
    """Read what /proc/<pid>/fd/<n> links to: the inode, if it is a socket."""
    inode = link.removeprefix("socket:[").removesuffix("]")
    return int(inode) if link.startswith("socket:[") and inode.isdigit() else None


def parse_pid(text: bytes) -> int | None:
    """Read a PID file: the number in its first line, or None when there is none."""
    first = text.lstrip().split(b"\n", 1)[0].strip()
    return int(first) if first.isdigit() and len(first) <= 10 and int(first) > 0 else None
