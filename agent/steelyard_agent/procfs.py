"""The text of files in /proc/<pid>, taken apart (proc(5)).

Pure: bytes in, values out; ValueError when the text is not what proc(5) says.
"""

from dataclasses import dataclass

LISTEN = b"0A"  # TCP_LISTEN of net/tcp_states.h, as /proc/net/tcp writes it


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
