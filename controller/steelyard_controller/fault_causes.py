"""Faults in words, and those with one cause as one. Pure.

One cause may show at many parts: a key that does not match at every upstream, a resolver without answers at
every name. With a line for each, nobody would find the other faults. So equal faults of `MANY` parts are one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from steelyard_protocol import name_list

# Equal faults of fewer parts fit on a screen, each beside its part.
MANY = 10

# Names in a line for many; these are enough to see what they have in common.
MOST_NAMED = 3

# In the log, where the further ones are looked for. Even the longest names fit into 10 kB.
MOST_LOGGED = 100


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in words.

    text   what does not work and the remedy, in the same words for the same cause
    at     names that differ from one place with this cause to another
    kind   what parts with this cause are called, such as "names"; empty: the part has no others of its kind
    """

    text: str
    at: str = ""
    kind: str = ""

    def __str__(self) -> str:
        """Return the fault in one line."""
        return f"{self.text} ({self.at})" if self.at else self.text


def of_many(text: str, parts: Collection[str], kind: str, *, most: int = MOST_NAMED) -> Fault:
    """Return the fault of many parts of a kind, with their number and the first names."""
    names = [part.rpartition(" ")[2] for part in parts]
    return Fault(text, f"{len(names):,} {kind}: {name_list.shown(names, most)}")


def told_once(faults: Mapping[str, Fault]) -> dict[str, Fault]:
    """Return the faults by part; those of `MANY` parts or more of one kind and cause are one."""
    causes: dict[tuple[str, str], list[str]] = {}
    for part, fault in faults.items():
        causes.setdefault((fault.kind or part, fault.text), []).append(part)
    told: dict[str, Fault] = {}
    for (kind, text), parts in causes.items():
        if len(parts) < MANY:
            told |= {part: faults[part] for part in parts}
        else:
            told[kind if kind not in told else f"{kind} such as {parts[0]}"] = of_many(text, parts, kind)
    return told
