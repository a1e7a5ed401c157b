"""A program's settings as text: what flags, environment and files give, and which of them holds. Pure.

    a flag, else its variable, else the file, else the default

All of them come in as arguments. What a text means is in `setting_values`, and in the programs. A flag's
variable has the program's name: --key-file of steelyard-agent is STEELYARD_AGENT_KEY_FILE. A secret itself is
in a variable or a file and never a flag: every user of the machine can read a command line.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

T = TypeVar("T")
U = TypeVar("U")

# How strong a place is.
DEFAULT, FILE, VARIABLE, FLAG = range(4)


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names it and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags of `program`: those with a value (name, what it is, help), and switches (name, help).

    `operand` is the one word that stands before the flags, with its name before and its help behind it.
    """

    program: str
    about: str
    settings: Sequence[tuple[str, str, str]]
    switches: Sequence[tuple[str, str]]
    operand: tuple[str, str, str] | None = None

    def parse(self, arguments: Sequence[str]) -> dict[str, str | None]:
        """Return the text of every flag by its name, None where it was not given; raise `SettingsError`."""
        parser = _Parser(prog=self.program, description=self.about, allow_abbrev=False)
        if self.operand is not None:
            name, word, about = self.operand
            parser.add_argument(name, choices=[word], help=about)
            parser.command = f"{self.program} {word}"
        for flag, value, about in self.settings:
            parser.add_argument(f"--{flag}", metavar=value, help=about)
        for flag, about in self.switches:
            parser.add_argument(f"--{flag}", action="store_const", const="yes", help=about)
        texts = vars(parser.parse_args(arguments))
        return {flag: texts[flag.replace("-", "_")] for flag, *_ in (*self.settings, *self.switches)}

    def variable(self, name: str) -> str:
        """Return the environment's name of a flag, or of a secret."""
        # Shared with everything else that is told where Memcached is.
        prefix = "STEELYARD" if name == "memcached" else self.program.upper().replace("-", "_")
        return f"{prefix}_{name.upper().replace('-', '_')}"

    def secret(
        self,
        name: str,
        environment: Mapping[str, str],
        parse: Callable[[str], T],
        *,
        file: Path | None,
        empty_is_none: bool = False,
    ) -> T | None:
        """Return what `parse` makes of a secret's variable, None where it is not set.

        Raises `SettingsError`: for what is no such secret, and where `file` is to hold it too.
        """
        variable = self.variable(name)
        text = environment.get(variable)
        if text is None or (empty_is_none and not text):
            return None
        try:
            secret = parse(text)
        except ValueError as error:
            raise SettingsError(f"{variable}: {error}") from None
        if file is not None:
            raise SettingsError(f"{variable} and --{name}-file ({variable}_FILE) are both set: leave one out")
        return secret


@dataclass(frozen=True, slots=True)
class Text:
    """A setting's text; the place that gave it, for a person; and how strong that place is."""

    text: str
    place: str
    strength: int


class Given(dict[str, Text]):
    """The settings that were given, by flag."""

    def value(self, flag: str, default: T, parse: Callable[[str], U]) -> T | U:
        """Return what `parse` makes of a setting's text, or the default where it was not given."""
        given = self.get(flag)
        if given is None:
            return default
        try:
            return parse(given.text)
        except ValueError as error:
            raise SettingsError(f"{given.place} is {_shown(given.text)!r}: {error}") from None

    def strongest_of(self, alternatives: Iterable[str]) -> "Given":
        """Return the settings without those alternatives that a stronger place than theirs replaces."""
        strengths = {flag: self[flag].strength for flag in alternatives if flag in self}
        weaker = {flag for flag, strength in strengths.items() if strength < max(strengths.values())}
        return Given({flag: given for flag, given in self.items() if flag not in weaker})


def collect(
    flags: Flags,
    line: Mapping[str, str | None],
    environment: Mapping[str, str],
    weaker: Mapping[str, Text],
) -> Given:
    """Return what the command line gives, else the environment, else `weaker` places."""
    texts = dict(weaker)
    for flag, text in line.items():
        variable = flags.variable(flag)
        # An empty variable is one that is not set: that is how compose files leave one out.
        if text is not None:
            texts[flag] = Text(text, f"--{flag}", FLAG)
        elif environment.get(variable):
            texts[flag] = Text(environment[variable], f"{variable} (--{flag})", VARIABLE)
    return Given(texts)


class _Parser(argparse.ArgumentParser):
    command = ""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} ({self.command or self.prog} --help lists the flags)")


def _shown(text: str) -> str:
    # A URL may hold a password.
    return re.sub(r"//[^/]*@", "//…@", text)
