"""The text of the kernel's files, which a container's runtime, a driver or a hypervisor may fake badly."""

from collections.abc import Callable

from steelyard_agent import cgroup, machine, procfs

from steelyard_loadtest.fuzz.model import ACCEPTED, Target

REFUSED = "unreadable"

# What the parsers' docstrings say they raise; the readers turn it into "not known".
EXPECTED = (ValueError, LookupError)


def targets() -> tuple[Target, ...]:
    """Return the parsers of /proc, of /sys and of control groups."""
    files = "(/proc, /sys)"
    return (
        _target("procfs", f"a process's files {files}", PROC, (
            procfs.parse_stat, procfs.parse_io_calls, lambda text: procfs.parse_listeners(text, 80),
            procfs.parse_pid,
        )),
        _target("machine", f"a machine's files {files}", MACHINE, (
            machine.parse_busy_ticks, machine.parse_memory, machine.parse_net_dev, machine.parse_diskstats,
            machine.parse_cpu_list, machine.parse_speed, machine.parse_stalled_s, machine.parse_flat,
        )),
        _target("cgroup", "a control group's files", CGROUP, (
            cgroup.parse_mounts, cgroup.parse_membership, cgroup.cpu_max_cores, cgroup.limit_bytes,
            cgroup.parse_io_stat, cgroup.parse_io_serviced, lambda text: cgroup.cfs_cores(text, b"100000"),
            _located,
        )),
    )  # fmt: skip


PROC = (
    b"4711 (a (b) c) S 1 4711 4711 0 -1 4194560 100 0 0 0 250 50 7 3 20 0 4 0 12345 1000000 "
    b"512 18446744073709551615\n",
    b"rchar: 1\nwchar: 2\nsyscr: 10\nsyscw: 5\nread_bytes: 0\n",
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 98765 1\n",
    b"4711\n",
)
MACHINE = (
    b"cpu  100 2 30 4000 50 6 7 8 9 0\ncpu0 100 2 30 4000 50 6 7 8 9 0\n",
    b"MemTotal:       16384000 kB\nMemFree:  1000 kB\nMemAvailable:    8192000 kB\n",
    b"Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n"
    b"  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n",
    b"   8       0 sda 1 2 3 4 5 6 7 8 0 1234 56 0 0 0 0\n",
    b"0-3,8\n",
    b"10000\n",
    b"some avg10=0.00 avg60=0.00 avg300=0.00 total=123456\nfull avg10=0.00 total=1\n",
    b"usage_usec 5000000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 300\n",
)
CGROUP = (
    b"31 30 0:27 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
    b"32 30 0:28 /docker/ab\\040c /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    b"0::/system.slice/nginx.service\n4:cpu,cpuacct:/docker/abc (deleted)\n",
    b"150000 100000\n",
    b"max 100000\n",
    b"9223372036854771712\n",
    b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
    b"8:0 Read 3\n8:0 Write 4\nTotal 7\n",
)


def _target(
    name: str, about: str, seeds: tuple[bytes, ...], parsers: tuple[Callable[[bytes], object], ...]
) -> Target:
    def judge(data: bytes) -> str:
        readable = 0
        for parser in parsers:
            try:
                readable += bool(parser(data))
            except EXPECTED:
                continue
        return ACCEPTED if readable else REFUSED

    return Target(name=name, about=about, form="text", seeds=seeds, judge=judge)


def _located(data: bytes) -> object:
    membership, mounts = data.split(b"\n", 1) if b"\n" in data else (data, data)
    places = [
        cgroup.locate(controller, cgroup.parse_mounts(mounts), cgroup.parse_membership(membership))
        for controller in ("cpu", "memory", "")
    ]
    return [place.upwards for place in places if place is not None]
