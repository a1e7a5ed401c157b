"""The utilization of a machine's NICs and disks, and its pressure, for the host and the cgroup scope.

Pure. Averages over the interval T between two readings:

    net = max over NICs of max(rx, tx) / T / speed        io = max over whole disks of busy seconds / T

A disk is busy no longer than its requests took: min(io_ticks, time of the requests). Linux 4.15 to 5.x
counts a whole second of io_ticks for one short request a second. A request in flight has no time yet, so
a disk with one at the later reading has io_ticks only.

A device counts once it is in both readings. A counter that went backwards (it wrapped, or the device was
reset), or grew faster than its device can work, leaves no figure: its loss is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from steelyard_agent.evidence import Evidence, rate, share, unmeasured

IMPOSSIBLE_COUNTER = "a counter went backwards, or jumped by more than is possible"

NicKind = Literal["hardware", "virtual", "loopback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicCounters:
    """One network interface. `bytes_per_s` is its speed, None if the kernel does not know it."""

    kind: NicKind
    rx_bytes: int
    tx_bytes: int
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """One whole disk: the time in which it had a request, and the time of all ended requests together.

    `requests_s` and `in_flight` (requests that have not ended) are None if the platform does not count them.
    """

    busy_s: float
    requests_s: float | None = None
    in_flight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGauge:
    """The machine's memory; `available_bytes` includes all that the kernel can reclaim at once."""

    total_bytes: int
    available_bytes: int

    @property
    def used_bytes(self) -> int:
        """Return the bytes that the kernel cannot reclaim at once."""
        return self.total_bytes - self.available_bytes


Nics = Mapping[str, NicCounters]
Disks = Mapping[str, DiskCounters]


def busiest_nic(
    before: Nics | None,
    after: Nics | None,
    interval_s: float,
    given: float | None,
    sources: Mapping[str, str],
) -> Evidence:
    """Return the most loaded NIC's utilization as evidence.

    None too if the NIC with the most bytes has no known speed: the
    others' figures would then hide the one that matters.
    """
    files = (sources.get("net"), "--net-capacity" if given else sources.get("speed"))
    if before is None or after is None:
        return unmeasured("net", "not counted in this scope, or not to be read", files)
    earlier, now = counted_nics(before), counted_nics(after)
    flows: list[tuple[float, float, str]] = []  # bytes/s, speed (0 is an unknown one), name
    for name in sorted(earlier.keys() & now.keys()):
        speed = now[name].bytes_per_s
        rx = rate(earlier[name].rx_bytes, now[name].rx_bytes, interval_s, speed)
        tx = rate(earlier[name].tx_bytes, now[name].tx_bytes, interval_s, speed)
        if rx is None or tx is None:
            return unmeasured("net", f"{name}: {IMPOSSIBLE_COUNTER}", files)
        flows.append((max(rx, tx), given or speed or 0.0, name))
    if not flows:
        return unmeasured("net", "no NIC but loopback in both readings", files)
    flow, capacity, name = max(flows)
    if capacity:
        flow, capacity, name = max((one for one in flows if one[1]), key=lambda one: one[0] / one[1])
    note = f"{name}, the larger of received and sent" + ("" if capacity else ": its speed is unknown")
    return share("net", flow, capacity or None, "bytes/s", sources=files, note=note)


def fastest_nic(nics: Nics | None) -> float | None:
    """Return the speed of the fastest NIC that counts.

    Not the most loaded one's: a capacity that changes with the load would move the baseline weights.
    """
    return max(
        (nic.bytes_per_s for nic in counted_nics(nics or {}).values() if nic.bytes_per_s), default=None
    )


def counted_nics(nics: Nics) -> Nics:
    """Return the NICs that count.

    Bridges, bonds, tunnels and veths repeat the hardware's bytes; in a container they are all there is.
    """
    outer = {name: nic for name, nic in nics.items() if nic.kind != "loopback"}
    return {name: nic for name, nic in outer.items() if nic.kind == "hardware"} or outer


def busiest_disk(
    before: Disks | None, after: Disks | None, interval_s: float, sources: Mapping[str, str]
) -> Evidence:
    """Return the busiest whole disk's share of busy time as evidence."""
    files = (sources.get("io"),)
    earlier, now = before or {}, after or {}
    busiest = unmeasured("io", "no whole disk in both readings", files)
    for name in sorted(earlier.keys() & now.keys()):
        busy = _busy(earlier[name], now[name], interval_s)
        if busy is None:
            return unmeasured("io", f"{name}: {IMPOSSIBLE_COUNTER}", files)
        if busiest.value is None or busy > busiest.value:
            busiest = share(
                "io", busy, 1.0, "busy s/s", sources=files, note=f"{name}, the busiest whole disk"
            )
    return busiest


def _busy(before: DiskCounters, after: DiskCounters, interval_s: float) -> float | None:
    busy = rate(before.busy_s, after.busy_s, interval_s, 1.0)
    requests = rate(before.requests_s, after.requests_s, interval_s)
    if busy is None or requests is None or after.in_flight:
        return busy
    return min(busy, requests)


def pressure(
    before: Mapping[str, float], after: Mapping[str, float], interval_s: float, source: str | None
) -> list[Evidence]:
    """Return the machine's pressure (PSI) by resource: shown, not sent."""
    return [
        share(
            f"psi {name}",
            rate(before[name], after[name], interval_s, 1.0),
            1.0,
            "stalled s/s",
            sources=(f"{source}/{name}",),
            note="the machine's: the share of time with some task waiting",
        )
        for name in after
        if name in before
    ]
