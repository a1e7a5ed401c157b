"""The utilization of a machine's NICs and disks, and its pressure, for the host and the cgroup scope.

Pure. Averages over the interval T between two readings:

    net = max over NICs of max(rx, tx) / T / speed        io = max over whole disks of busy seconds / T

A device counts once it is in both readings. A counter that went backwards
(it wrapped, or the device was reset) leaves no figure: its loss is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from steelyard_agent.evidence import Evidence, rate, share, unmeasured

NicKind = Literal["hardware", "virtual", "loopback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicCounters:
    """One network interface. `bytes_per_s` is its speed, None if the kernel does not know it."""

    kind: NicKind
    rx_bytes: int
    tx_bytes: int
    bytes_per_s: float | None


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
        rx = rate(earlier[name].rx_bytes, now[name].rx_bytes, interval_s)
        tx = rate(earlier[name].tx_bytes, now[name].tx_bytes, interval_s)
        if rx is None or tx is None:
            return unmeasured("net", f"{name}: a counter went backwards", files)
        flows.append((max(rx, tx), given or now[name].bytes_per_s or 0.0, name))
    if not flows:
        return unmeasured("net", "no NIC but loopback in both readings", files)
    flow, speed, name = max(flows)
    if speed:
        flow, speed, name = max((one for one in flows if one[1]), key=lambda one: one[0] / one[1])
    note = f"{name}, the larger of received and sent" + ("" if speed else ": its speed is unknown")
    return share("net", flow, speed or None, "bytes/s", sources=files, note=note)


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
    before_s: Mapping[str, float] | None,
    after_s: Mapping[str, float] | None,
    interval_s: float,
    sources: Mapping[str, str],
) -> Evidence:
    """Return the busiest whole disk's share of busy time as evidence."""
    files = (sources.get("io"),)
    earlier, now = before_s or {}, after_s or {}
    busiest = unmeasured("io", "no whole disk in both readings", files)
    for name in sorted(earlier.keys() & now.keys()):
        busy = rate(earlier[name], now[name], interval_s)
        if busy is None:
            return unmeasured("io", f"{name}: a counter went backwards", files)
        if busiest.value is None or busy > busiest.value:
            busiest = share(
                "io", busy, 1.0, "busy s/s", sources=files, note=f"{name}, the busiest whole disk"
            )
    return busiest


def pressure(
    before: Mapping[str, float], after: Mapping[str, float], interval_s: float, source: str | None
) -> list[Evidence]:
    """Return the machine's pressure (PSI) by resource: shown, not sent."""
    return [
        share(
            f"psi {name}",
            rate(before[name], after[name], interval_s),
            1.0,
            "stalled s/s",
            sources=(f"{source}/{name}",),
            note="the machine's: the share of time with some task waiting",
        )
        for name in after
        if name in before
    ]
