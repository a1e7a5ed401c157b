"""The settings of a program: its flags, variables, file and defaults. Pure.

    a flag, else its variable, else the file, else the default

Command line, environment and the file's content are arguments. Every source gives text, so that one parser
judges them all: `setting_values` has the common parsers, each program its own. The variable of a flag is the
program's prefix and the flag's name: STEELYARD_AGENT_KEY_FILE for --key-file of steelyard-agent.

A secret has no flag and no key in the file. It is in a variable or in a file of its own, because every user
of the machine can read a command line.
"""

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeVar

from steelyard_protocol import help_text, setting_values

T = TypeVar("T")

# A number of more bits is beyond every setting, and Python makes no text of one with 4,300 digits.
_MOST_BITS = 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# How strong a source is.
DEFAULT, FILE, VARIABLE, FLAG = range(4)


class SettingsError(Exception):
    """Settings are wrong; the message has a line for each mistake, with the setting and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting and its line in --help.

    `metavar` is the form of its value; None makes it a switch. `default` is the text without another
    source. If there is no such text, `unset` describes the behaviour instead.
    """

    name: str
    metavar: str | None = None
    help: str
    default: str | None = None
    unset: str | None = None
    # A command such as --once is a flag only.
    in_file: bool = True
    # Compose files leave a variable out by making it empty; a few settings have a use for an empty value.
    takes_empty: bool = False
    # The value may hold a password: messages do not repeat it.
    is_private: bool = False

    @property
    def key(self) -> str:
        """Return its name in a file."""
        return self.name.replace("-", "_")

    @property
    def takes_list(self) -> bool:
        """Return whether it takes several values, with commas between them."""
        return self.metavar is not None and ",..." in self.metavar

    def line(self) -> str:
        """Return its help with the default."""
        default = self.default if self.default is not None else self.unset
        return self.help if default is None else f"{self.help} (default: {default})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags of `program`, and its secrets, which have no flag.

    `operand` is a word before the flags: its name, the word and its help. `examples` are command lines,
    and `statuses` the meanings of the exit statuses.
    """

    program: str
    prefix: str
    about: str
    settings: Sequence[Setting]
    secrets: Sequence[str] = ()
    operand: tuple[str, str, str] | None = None
    # The end of --help.
    examples: Sequence[str] = ()
    statuses: Mapping[int, str] = field(default_factory=dict)

    def parse(self, arguments: Sequence[str]) -> dict[str, str | None]:
        """Return the text of every flag by its name, None if it is absent; raise `SettingsError`."""
        for secret in self.secrets:
            if any(argument.split("=")[0] == f"--{secret}" for argument in arguments):
                raise SettingsError(
                    f"--{secret}: flags show in process lists: use {self.variable(secret)} or --{secret}-file"
                )
        texts = vars(self.parser().parse_args(arguments))
        return {setting.name: texts[setting.key] for setting in self.settings}

    def help(self) -> str:
        """Return the text of --help."""
        return self.parser().format_help()

    def variable(self, name: str) -> str:
        """Return the environment's name of a flag, or of a secret."""
        # All parts share the variable for Memcached's address.
        prefix = "STEELYARD" if name == "memcached" else self.prefix
        return f"{prefix}_{name.upper().replace('-', '_')}"

    def variables(self) -> set[str]:
        """Return the environment's names of all flags and secrets."""
        return {self.variable(name) for name in (*(each.name for each in self.settings), *self.secrets)}

    def secret(
        self,
        name: str,
        environment: Mapping[str, str],
        parse: Callable[[str], T],
        *,
        file: Path | None,
        empty_is_none: bool = False,
    ) -> T | None:
        """Return the parsed secret of a variable, or None if the variable is not set.

        Raises `SettingsError` if the secret is malformed, or `file` is set as well.
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

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of the flags."""
        parser = _Parser(
            prog=self.program,
            description=self.about,
            epilog=help_text.epilog(self.examples, self.statuses),
            formatter_class=help_text.HelpFormatter,
            allow_abbrev=False,
        )
        if self.operand is not None:
            name, word, about = self.operand
            parser.add_argument(name, choices=[word], help=about)
            parser.command = f"{self.program} {word}"
        for setting in self.settings:
            about = setting.line().replace("%", "%%")
            if setting.metavar is None:
                parser.add_argument(f"--{setting.name}", action="store_const", const="yes", help=about)
            else:
                parser.add_argument(f"--{setting.name}", metavar=setting.metavar, help=about)
        return parser


@dataclass(frozen=True, slots=True)
class Text:
    """A setting's text, a person's name for its source, and the strength of that source."""

    text: str
    source: str
    strength: int


class Given(dict[str, Text]):
    """The given settings, by name.

    Wrong values are collected, so that one run names them all: `raise_mistakes` follows the last value.
    """

    def __init__(self, flags: Flags, texts: Mapping[str, Text], mistakes: Iterable[str] = ()) -> None:
        super().__init__(texts)
        self._settings = {setting.name: setting for setting in flags.settings}
        self._mistakes = list(mistakes)

    def value(self, name: str, parse: Callable[[str], T]) -> T:
        """Return the parsed value of a setting with a default."""
        default = self._settings[name].default
        if default is None:
            raise ValueError(f"{name} has no default")
        value = self.optional(name, parse)
        return parse(default) if value is None else value

    def optional(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the parsed value of a setting, or None if no source gives it."""
        given = self.get(name)
        if given is None:
            return None
        try:
            return parse(given.text)
        except ValueError as error:
            shown = "" if self._settings[name].is_private else f" is {_masked(given.text)!r}"
            self._mistakes.append(f"{given.source}{shown}: {error}")
            return None

    def switch(self, name: str) -> bool:
        """Return whether a switch is on."""
        return self.optional(name, setting_values.switch) or False

    def add_mistake(self, mistake: str) -> None:
        """Add a mistake from outside the texts."""
        self._mistakes.append(mistake)

    def raise_mistakes(self) -> None:
        """Raise `SettingsError` if a value is wrong."""
        if self._mistakes:
            raise SettingsError("\n".join(self._mistakes))

    def strongest_of(self, alternatives: Iterable[str]) -> list[str]:
        """Keep only the alternatives of the strongest source among them; return their names."""
        given = [name for name in alternatives if name in self]
        strongest = max((self[name].strength for name in given), default=DEFAULT)
        for name in given:
            if self[name].strength < strongest:
                del self[name]
        return [name for name in given if name in self]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """The content of a file of settings, and the line of each place in it (None if unknown)."""

    values: Mapping[str, object]
    line_of: Callable[[Sequence[str | int]], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A file of settings: texts by the name of their flag, and the tables, which have no flag."""

    path: Path
    line_of: Callable[[Sequence[str | int]], int | None]
    texts: dict[str, Text] = field(default_factory=dict)
    tables: dict[str, object] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def source(self, *place: str | int) -> str:
        """Return a person's name for a place in the file: the file, the line and the key."""
        line = self.line_of(place)
        at = "" if line is None else f", line {line}"
        return f"{self.path}{at}: {printable('.'.join(map(str, place)))}"


def read_file(
    flags: Flags,
    line: Mapping[str, str | None],
    environment: Mapping[str, str],
    *,
    read: Callable[[Path], bytes],
    parse: Callable[[str], ParsedFile],
    tables: Collection[str],
) -> SettingsFile | None:
    """Return the file named by --config, or None; raise `SettingsError` if it cannot be read.

    `parse` reads the file's format, and raises ValueError. `tables` are keys without a flag.
    """
    named = line["config"] or environment.get(flags.variable("config"))
    if not named:
        return None
    path = Path(named)
    try:
        content = read(path)
    except (OSError, ValueError) as error:  # the latter for a name with a NUL
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"--config: {path} cannot be read: {why}") from None
    try:
        parsed = parse(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: it is not UTF-8") from None
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    settings = {setting.key: setting for setting in flags.settings if setting.in_file}
    file = SettingsFile(path=path, line_of=parsed.line_of)
    for key, value in parsed.values.items():
        if key in tables:
            file.tables[key] = value
        elif key not in settings:
            secret = key if key in {each.replace("-", "_") for each in flags.secrets} else None
            file.mistakes.append(f"{file.source(key)} {_unknown(key, [*settings, *tables], secret)}")
        else:
            try:
                file.texts[settings[key].name] = Text(_text(value, settings[key]), file.source(key), FILE)
            except ValueError as error:
                file.mistakes.append(f"{file.source(key)} {error}")
    return file


def collect(
    flags: Flags,
    line: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: SettingsFile | None = None,
) -> Given:
    """Return the settings of the command line, else of the environment, else of the file."""
    texts = {} if file is None else dict(file.texts)
    for setting in flags.settings:
        variable, text = flags.variable(setting.name), line[setting.name]
        of_environment = environment.get(variable)
        if text is not None:
            texts[setting.name] = Text(text, f"--{setting.name}", FLAG)
        elif (
            of_environment is not None
            and (of_environment or setting.takes_empty)
            # For a Service called steelyard-api, Kubernetes sets STEELYARD_API_PORT=tcp://10.0.0.1:8081.
            and not (variable.endswith("_PORT") and of_environment.startswith(("tcp://", "udp://")))
        ):
            texts[setting.name] = Text(of_environment, f"{variable} (--{setting.name})", VARIABLE)
    return Given(flags, texts, () if file is None else file.mistakes)


def printable(text: str) -> str:
    """Return a text on one line, with a line break or another control character as an escape."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class _Parser(argparse.ArgumentParser):
    command = ""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} ({self.command or self.prog} --help lists the flags)")


def _text(value: object, setting: Setting) -> str:
    """Return a file's value as the text that a flag would have."""
    match value:
        case None:
            # Not "unset": a template whose secret is missing leaves `key_file:`, and turns the check off.
            raise ValueError("has no value: give one, or leave the key out")
        case bool() if setting.metavar is None:
            return "yes" if value else "no"
        case bool():  # YAML reads `off` as false
            raise ValueError("is read as true or false: a word such as off needs quotes")
        case int() if value.bit_length() > _MOST_BITS:
            raise ValueError("is too large a number")
        case str() | int() | float():
            text = str(value)
        case [*parts] if all(isinstance(part, str) for part in parts):
            if not setting.takes_list:
                raise ValueError("takes one value, not a list")
            if not parts and not setting.takes_empty:
                raise ValueError("is an empty list: give a value, or leave the key out")
            text = ",".join(str(part) for part in parts)
        case _:
            raise ValueError("is neither text, a number, true or false, nor a list of texts")
    # Flags and variables cannot hold a NUL, and open() and bind() raise for one.
    if _CONTROL.search(text):
        raise ValueError("has a control character, such as a line break: leave it out")
    return text


def _unknown(key: str, known: Sequence[str], secret: str | None) -> str:
    if secret is not None:
        return f"is no setting: put the {secret} into a file of its own, and name that as {secret}_file"
    import difflib  # only a mistake needs it, and an agent has little memory

    close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.75)
    return f"is no setting: write {close[0]}" if close else f"is no setting; write {', '.join(sorted(known))}"


def _masked(text: str) -> str:
    # A URL may hold a password.
    return re.sub(r"//.*@", "//…@", text)
