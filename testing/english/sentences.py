"""Sentences and words, and the figures of a text: the median length, relative words a sentence. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from .prose import Block

RELATIVE = re.compile(
    r"\b(?:who|whom|whose|whoever|which|whichever|what|whatever|where|wherever|that)\b", re.IGNORECASE
)
WORD = re.compile(r"[^\W_][\w'’.,%-]*")

# A point after these ends no sentence; a letter after a number is a unit ("within 5 s.") and may end one.
ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|et al|etc|vs|cf|fig|eq|eqs|no|approx|(?<!\d )[A-Z])\.$", re.IGNORECASE
)
# Names in small letters even at the beginning of a sentence.
SMALL = r"(?:nginx|ngx_lua|gRPC|vLLM|wrk|curl)\b"
END = re.compile(rf"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_]*(?:[A-Z0-9`]|{SMALL}))")

FEWEST_WORDS = 4
"""Fewest words of a sentence in the figures: "Pure." says nothing about style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence, with the kind and the first line of its block."""

    line: int
    kind: str
    text: str

    @property
    def words(self) -> int:
        """Words, numbers included."""
        return len(WORD.findall(self.text))

    @property
    def relatives(self) -> int:
        """Words that open a relative or an indirect clause."""
        return len(RELATIVE.findall(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a text; `long` is the share of sentences over 30 words."""

    sentences: int
    median_words: float
    relatives: float
    long: float


def sentences(found: Iterable[Block]) -> Iterator[Sentence]:
    """Split blocks into sentences."""
    for block in found:
        started = ""
        for part in END.split(block.text):
            started = f"{started} {part}" if started else part
            if not ABBREVIATION.search(started):
                yield Sentence(line=block.line, kind=block.kind, text=started.strip())
                started = ""
        if started:
            yield Sentence(line=block.line, kind=block.kind, text=started.strip())


def figures(found: Iterable[Sentence]) -> Figures | None:
    """Return the figures of sentences; None if there are too few words."""
    counted = [each for each in found if each.kind not in ("heading", "cell") and each.words >= FEWEST_WORDS]
    if not counted:
        return None
    return Figures(
        sentences=len(counted),
        median_words=median(each.words for each in counted),
        relatives=sum(each.relatives for each in counted) / len(counted),
        long=sum(each.words > 30 for each in counted) / len(counted),
    )
