"""The command `steelyard`: what an operator types.

Each subcommand is a function that adds its own parser; add a line to `COMMANDS`
for a new one.

    steelyard replay --law L [--set H=0.5]... [--config FILE] [--plot FILE]   < snapshots > decisions
    steelyard laws
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import yaml

from steelyard_controller import laws, replay
from steelyard_controller.decision import Decision

MALFORMED = 2
"""Exit status for input or arguments that cannot be taken (the same as argparse's own)."""


class UsageError(Exception):
    """The command line asks for something that there is not; the message names the remedy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status."""
    parser = argparse.ArgumentParser(prog="steelyard", description="Look at weights and replay laws.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(subparsers)
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except UsageError as error:
        print(f"steelyard: {error}", file=sys.stderr)
        return MALFORMED
    except BrokenPipeError:
        # The reader has gone (`| head`); nothing is left to say, not even by the interpreter at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def add_replay(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `steelyard replay`."""
    parser = subparsers.add_parser(
        "replay",
        help="what would a law have done: snapshots in, decisions out",
        description="Read snapshots as JSON lines on standard input, write one decision a line. "
        "The first malformed line ends it: its number and what is wrong on standard error, exit status 2.",
    )
    parser.add_argument("--law", required=True, choices=laws.NAMES)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="set a parameter"
    )
    parser.add_argument(
        "--config", type=Path, help="a YAML or JSON file of parameters by name; --set is stronger"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it (png, svg or pdf)")
    parser.set_defaults(run=_replay)


def add_laws(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `steelyard laws`."""
    parser = subparsers.add_parser("laws", help="the laws and their parameters: units, defaults, reasons")
    parser.set_defaults(run=_laws)


COMMANDS: tuple[Callable[["argparse._SubParsersAction[argparse.ArgumentParser]"], None], ...] = (
    add_replay,
    add_laws,
)


def _replay(options: argparse.Namespace) -> int:
    parameters = {**_from_config(options.config), **_from_settings(options.settings)}
    try:
        law = laws.create(options.law, parameters)
    except ValueError as error:
        raise UsageError(str(error)) from None
    decisions: list[Decision] = []
    status = _replay_lines(law, sys.stdin, sys.stdout, decisions if options.plot is not None else None)
    if options.plot is not None:
        _draw(decisions, options.plot)
    return status


def _replay_lines(law: laws.Law, lines: TextIO, out: TextIO, kept: list[Decision] | None) -> int:
    memory, previous_t_s = law.start(), None
    for number, text in enumerate(_decoded(lines), start=1):
        if not text.strip():
            continue
        try:
            snapshot = replay.parse(text, previous_t_s=previous_t_s)
        except replay.Malformed as error:
            out.flush()
            print(f"steelyard replay: line {number}: {error}", file=sys.stderr)
            return MALFORMED
        memory, decision = law.step(memory, snapshot)
        previous_t_s = snapshot.t_s
        print(replay.line_of(decision), file=out, flush=True)
        if kept is not None:
            kept.append(decision)
    return 0


def _decoded(lines: TextIO) -> TextIO:
    """Return the lines, with bytes that are not UTF-8 shown as such: they make a malformed line."""
    reconfigure = getattr(lines, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="replace")
    return lines


def _draw(decisions: Sequence[Decision], path: Path) -> None:
    try:
        from steelyard_controller.replay_plot import plot

        plot(decisions, path)
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'steelyard-controller[plot]'") from None
    except (ValueError, OSError) as error:
        raise UsageError(f"--plot {path}: {error}") from None


def _from_settings(settings: Sequence[str]) -> dict[str, float]:
    parameters = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            parameters[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--set {setting}: give NAME=NUMBER, such as --set H=0.5")
    return parameters


def _from_config(path: Path | None) -> Mapping[str, float]:
    """Return the parameters of a file: `H: 0.5` a line, or the same below the key `parameters`."""
    if path is None:
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"--config {path}: {error}") from None
    if isinstance(document, dict) and isinstance(document.get("parameters"), dict):
        document = document["parameters"]
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"--config {path}: give parameters by name, such as `H: 0.5`")
    return {str(name): value for name, value in document.items()}


def _laws(_options: argparse.Namespace) -> int:
    for name in laws.NAMES:
        print(name)
        for each in laws.parameters_of(name):
            bounds = f"{each.low:g}..{each.high:g}"
            print(f"  {each.name:<11} {each.default:<8g} {each.unit:<12} {bounds:<14} {each.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
