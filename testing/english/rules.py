"""Rules for sentences, as far as a machine can judge them. Pure.

A rule registers itself. It takes a sentence and returns the remedy, or None.
"""

import re
from collections.abc import Callable, Iterator

from .sentences import RELATIVE, Sentence

Rule = Callable[[Sentence], str | None]

RULES: list[Rule] = []

MOST_WORDS = 30
MOST_RELATIVES = 2


def rule(check: Rule) -> Rule:
    """Register a rule."""
    RULES.append(check)
    return check


def complaints(sentence: Sentence) -> Iterator[str]:
    """Yield the complaints of all rules about a sentence."""
    for check in RULES:
        if complaint := check(sentence):
            yield complaint


@rule
def too_long(sentence: Sentence) -> str | None:
    """A sentence has at most 30 words."""
    if sentence.words <= MOST_WORDS:
        return None
    return f"{sentence.words} words: split it (at most {MOST_WORDS})"


@rule
def opens_with_of(sentence: Sentence) -> str | None:
    """No sentence opens with "Of"; use *for*, *with*, *among* or *in*."""
    return 'opens with "Of": use for, with, among or in' if re.match(r"Of\b", sentence.text) else None


@rule
def bare_subject(sentence: Sentence) -> str | None:
    """The actor has a name; questions and titles may begin with such a word."""
    if sentence.kind == "heading" or sentence.text.rstrip("*_)\"' ").endswith("?"):
        return None
    found = re.match(r"(Who|Whoever|What|Whatever|Where|Wherever)\b(?!')", sentence.text) or re.search(
        r"[;:] (who|whoever|whatever)\b", sentence.text
    )
    shortest = 6 if sentence.kind == "cell" else 1
    if not found or sentence.words < shortest:
        return None
    return f'"{found[1]}" as a bare subject: name who or what it is; for a condition use if or when'


@rule
def chain_of_relatives(sentence: Sentence) -> str | None:
    """A sentence has at most two relative words."""
    found = RELATIVE.findall(sentence.text)
    if len(found) <= MOST_RELATIVES:
        return None
    return f"{len(found)} relative words ({', '.join(found)}): one idea a sentence"


PLAIN = {
    r"\bso many\b": '"N" or "at most N"',
    r"\bas much at\b": '"as much", "at most"',
    r"\bof (?:before|later|then)\b": "earlier, previous, later, since",
    r"\bwhoever\b": "a noun",
}


@rule
def has_a_plainer_word(sentence: Sentence) -> str | None:
    """Phrases that English does not have."""
    for turn, plainer in PLAIN.items():
        if found := re.search(turn, sentence.text, re.IGNORECASE):
            return f'"{found[0]}": use {plainer}'
    return None
