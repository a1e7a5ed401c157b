"""The text of the kernel's files about a whole machine, taken apart (proc(5), sysfs, PSI).

Pure: bytes in, values out; ValueError or KeyError when the text is not what the kernel writes.
"""

from collections.abc import Mapping

from steelyard_agent.reading import MemoryGauge

BYTES_PER_S_IN_A_MEGABIT = 125_000

# /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice, in clock ticks. Busy is what
# is there for no other work: neither idle nor waiting for a disk, but what the hypervisor stole. Guest time
# is left out because Linux counts it in user and nice already.
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)


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
