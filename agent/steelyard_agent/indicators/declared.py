"""The `[[indicator]]` tables of the agent's TOML file, and rates such as `[rps_fractional]`. Pure.

    [[indicator]]
    name = "workers"
    prometheus = "http://127.0.0.1:8000/metrics"
    metric = "app_busy_workers"
    labels = { pool = "web" }
    limit = "app_workers"

    [rps_fractional]
    prometheus = "http://127.0.0.1:8000/metrics"
    metric = "http_requests_total"

A preset is a set of defaults of an entry's keys (`presets`): the entry's own are stronger. A rate
has no limit; its name is the field of ORCA's load reports that shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal
from urllib.parse import urlsplit

from steelyard_protocol.sample_record import INDICATOR_NAME, INDICATORS, MAX_FURTHER

from steelyard_agent.indicators import presets
from steelyard_agent.log_text import one_line

TextFormat = Literal["prometheus", "json", "column", "words", "number"]
Across = Literal["sum", "max", "mean"]

SOURCES = ("prometheus", "json", "text", "file", "command")
"""The keys of a place to read; an entry has one."""

SELECTORS: Mapping[str, TextFormat] = {
    "metric": "prometheus",
    "pointer": "json",
    "column": "column",
    "after": "words",
}
"""The keys of a number in the text, and so of its format; without one the text is a number."""

OTHER_KEYS = ("name", "preset", "port", "labels", "limit", "across", "rate", "every")

OF_RATES = ("labels", "across", "rate", "every")
"""Those of OTHER_KEYS that a rate has, too."""

# Starting a program costs more than a sample does.
COMMAND_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a text: a URL, a file's path, or a command's words; read every `every_s`."""

    kind: Literal["http", "file", "command"]
    target: str | tuple[str, ...]
    every_s: float

    def __str__(self) -> str:
        return self.target if isinstance(self.target, str) else " ".join(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """One indicator: `amount` names a number in the text of `source`, and `limit` is its 100 %.

    A textual `limit` names another number of the same source, in the same format. `labels`
    choose among the series (or rows) of that name; `across` combines several. `rate` is true for a counter,
    whose growth per second counts; None takes the metric's own type. Without
    a limit it is a rate, which is shown and not sent.
    """

    name: str
    source: Source
    text_format: TextFormat
    amount: str
    limit: float | str | None
    labels: tuple[tuple[str, str], ...] = ()
    across: Across = "sum"
    rate: bool | None = None


def parse(entries: object, *, interval_s: float) -> tuple[Indicator, ...]:
    """Return the indicators of a file's `[[indicator]]` tables, in their order; raise ValueError."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("'indicator' is a list of tables: write [[indicator]] above each")
    if len(entries) > MAX_FURTHER:
        raise ValueError(f"there are {len(entries)} [[indicator]] tables: give at most {MAX_FURTHER}")
    indicators: list[Indicator] = []
    for number, entry in enumerate(entries, 1):
        try:
            one = _indicator(entry, interval_s)
            if one.name in {earlier.name for earlier in indicators}:
                raise ValueError("another [[indicator]] has that name: give each its own")
        except ValueError as error:
            name = entry.get("name")
            named = f" ({one_line(name)})" if isinstance(name, str) else ""
            raise ValueError(f"[[indicator]] {number}{named}: {error}") from None
        indicators.append(one)
    return tuple(indicators)


def parse_rates(tables: Mapping[str, object], *, interval_s: float) -> tuple[Indicator, ...]:
    """Return the rates in a file's tables, named like their fields; raise ValueError."""
    rates: list[Indicator] = []
    for name, entry in tables.items():
        try:
            if not isinstance(entry, dict):
                raise ValueError(f"it is a table: write [{name}], and its keys below")
            _refuse_unknown_keys(entry, OF_RATES)
            # The source of a rate is a counter, even if the page does not declare it as one.
            rates.append(_reading(name, {"rate": True, **entry}, interval_s))
        except ValueError as error:
            raise ValueError(f"[{name}]: {error}") from None
    return tuple(rates)


def _refuse_unknown_keys(entry: Mapping[str, object], others: tuple[str, ...]) -> None:
    known = (*others, *SOURCES, *SELECTORS)
    unknown = next((key for key in entry if key not in known), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is no key of it; those are {', '.join(sorted(known))}")


def _indicator(given: Mapping[str, object], interval_s: float) -> Indicator:
    _refuse_unknown_keys(given, OTHER_KEYS)
    entry = _with_preset(given)
    name = entry.get("name")
    if not (isinstance(name, str) and INDICATOR_NAME.fullmatch(name)):
        raise ValueError(
            "give it a name of 1 to 32 lower-case letters, digits and underscores, a letter first, "
            f"and none of {', '.join(INDICATORS)}"
        )
    share = _reading(name, entry, interval_s)
    return replace(share, limit=_limit(entry, share.text_format))


def _reading(name: str, entry: Mapping[str, object], interval_s: float) -> Indicator:
    place = _only(entry, SOURCES, "a source")
    if place is None:
        raise ValueError(f"give it a source: {', '.join(SOURCES)}")
    selector = _only(entry, tuple(SELECTORS), "what to read")
    text_format = "number" if selector is None else SELECTORS[selector]
    needed = {"prometheus": "metric", "json": "pointer"}.get(place)
    if needed is not None and selector != needed:
        raise ValueError(f"{place} needs {needed}, the number to read there")
    amount = "" if selector is None else _words(entry[selector], selector)
    if text_format == "json":
        _check_pointer(amount)
    labels = entry.get("labels", {})
    if labels and text_format not in {"prometheus", "column"}:
        raise ValueError("labels are for metric and column")
    return Indicator(
        name=name,
        source=_source(place, entry, interval_s),
        text_format=text_format,
        amount=amount,
        limit=None,
        labels=_labels(labels),
        across=_across(entry.get("across", "sum")),
        rate=_rate(entry.get("rate")),
    )


def _with_preset(given: Mapping[str, object]) -> dict[str, object]:
    if "preset" not in given:
        if "port" in given:
            raise ValueError("port is for a preset: write it into the URL")
        return dict(given)
    name = given["preset"]
    preset = presets.PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        raise ValueError(f"{name!r} is no preset; those are {', '.join(presets.PRESETS)}")
    port = given.get("port", preset.port)
    if isinstance(port, bool) or not (isinstance(port, int) and 0 < port < 2**16):
        raise ValueError("port is a number from 1 to 65535")
    entry = preset.on(port)
    # An entry's own source or selector replaces the preset's, whatever its kind.
    for group in (SOURCES, tuple(SELECTORS)):
        if any(key in given for key in group):
            entry = {key: value for key, value in entry.items() if key not in group}
    entry.update(given)
    if "limit" not in entry:
        raise ValueError(f"the preset {name} needs limit, a number: {preset.limit_is}")
    return entry


def _only(entry: Mapping[str, object], keys: tuple[str, ...], what: str) -> str | None:
    named = [key for key in keys if key in entry]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} are both {what}: give one")
    return named[0] if named else None


def _source(place: str, entry: Mapping[str, object], interval_s: float) -> Source:
    target = entry[place]
    default_s = max(interval_s, COMMAND_EVERY_S) if place == "command" else interval_s
    every_s = _number(entry.get("every", default_s))
    if every_s is None or not 0.1 <= every_s <= 3600:
        raise ValueError("every is seconds within 0.1..3600")
    if place == "command":
        if not isinstance(target, list) or not target or not all(_is_line(word) and word for word in target):
            raise ValueError('command is a list of words, such as ["psql", "--csv"]; no shell is asked')
        return Source(kind="command", target=tuple(target), every_s=every_s)
    if place == "file":
        if not (_is_line(target) and str(target).startswith("/")):
            raise ValueError("file is a path from the root on, such as /run/app/queue")
        return Source(kind="file", target=str(target), every_s=every_s)
    return Source(kind="http", target=_url(place, target), every_s=every_s)


def _url(place: str, target: object) -> str:
    remedy = f"{place} is a URL, such as http://127.0.0.1:8000/metrics"
    if not (_is_line(target) and str(target).isascii() and " " not in str(target)):
        raise ValueError(remedy)
    try:
        parts = urlsplit(str(target))
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(remedy)
    if "@" in parts.netloc:
        raise ValueError(f"{place} holds a password, which would be shown: use a command, such as curl")
    return str(target)


def _limit(entry: Mapping[str, object], text_format: TextFormat) -> float | str:
    limit = entry.get("limit")
    remedy = "limit is the amount of 100 %: a number above 0"
    if isinstance(limit, str) and limit and text_format != "number":
        if text_format == "json":
            _check_pointer(limit)
        return limit
    number = _number(limit)
    if number is None or number <= 0:
        another = {"prometheus": "metric", "json": "pointer", "column": "column", "words": "words"}
        also = f", or the {another[text_format]} of one there" if text_format in another else ""
        raise ValueError(f"{remedy}{also}")
    return number


def _labels(labels: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(labels, dict) or not all(_is_line(text) for pair in labels.items() for text in pair):
        raise ValueError('labels is a table of texts, such as { pool = "web" }')
    return tuple(sorted(labels.items()))


def _across(given: object) -> Across:
    match given:
        case "sum" | "max" | "mean":
            return given
    raise ValueError("across is sum, max or mean of several series")


def _rate(given: object) -> bool | None:
    if given is not None and not isinstance(given, bool):
        raise ValueError("rate is true for a counter, whose growth per second counts, or false")
    return given


def _check_pointer(text: str) -> None:
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer: those begin with /, such as /pool/active")


def _words(given: object, key: str) -> str:
    if not (_is_line(given) and given):
        raise ValueError(f"{key} is a text, and one line")
    return str(given)


def _is_line(given: object) -> bool:
    return isinstance(given, str) and given.isprintable()


def _number(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    return number if isfinite(number) else None
