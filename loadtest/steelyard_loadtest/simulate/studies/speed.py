"""How fast the model ran, to be told beside its figures. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Events of the model, and the CPU seconds that processes spent on them."""

    events: int = 0
    cpu_s: float = 0.0

    def __add__(self, other: "Speed") -> "Speed":
        return Speed(events=self.events + other.events, cpu_s=self.cpu_s + other.cpu_s)

    def __str__(self) -> str:
        rate = self.events / self.cpu_s if self.cpu_s > 0 else 0.0
        return f"{self.events:,} events, {rate:,.0f} a CPU second"
