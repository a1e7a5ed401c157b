"""`steelyard laws` and `replay`: the laws' parameters, and a law's decisions on recorded snapshots.

steelyard replay --law L [--set H=0.5]... [--config FILE] [--plot FILE]   < snapshots > decisions
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from steelyard_protocol import console_program, setting_values

from steelyard_controller.cli import connection_flags, name_completion, yaml_file
from steelyard_controller.cli.exit_status import Exit, Failure, UsageError
from steelyard_controller.cli.terminal.output import Output

if TYPE_CHECKING:
    from steelyard_controller.laws import Law
    from steelyard_controller.laws.decision import Decision


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    laws = subparsers.add_parser("laws", help="list the laws and their parameters: units, defaults, reasons")
    laws.add_argument("--json", default=argparse.SUPPRESS, action="store_true", help="Print a JSON document")
    laws.set_defaults(run=_laws)
    parser = subparsers.add_parser(
        "replay",
        help="run a law on recorded snapshots: snapshots in, decisions out",
        description="Read snapshots as JSON lines on standard input, and print one decision a line, as JSON. "
        "The first malformed line ends it: standard error has its number and its mistake, exit status 2.",
    )
    law = parser.add_argument(
        "--law", metavar="NAME", required=True, help="Name of the law (`steelyard laws` lists them)"
    )
    name_completion.set_law(law)
    parameter = parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="Value of a parameter",
    )
    name_completion.set_parameter(parameter)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="YAML or JSON file of parameters by name; --set overrides it",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="File for a plot (png, svg or pdf)")
    parser.add_argument(
        "--json", default=argparse.SUPPRESS, action="store_true", help="Without effect: the output is JSON"
    )
    parser.set_defaults(run=_replay)


def _laws(given: argparse.Namespace) -> int:
    from steelyard_controller import laws  # numpy takes a moment that other commands save

    lines = []
    for name in laws.NAMES:
        lines.append(name)
        for each in laws.parameters_of(name):
            bounds = f"{each.low:g}..{each.high:g}"
            lines.append(f"  {each.name:<11} {each.default:<8g} {each.unit:<12} {bounds:<14} {each.reason}")
    Output(as_json=connection_flags.wants_json(given)).answer(laws.describe(), lines)
    return Exit.OK


def _replay(options: argparse.Namespace) -> int:
    from steelyard_controller import laws  # numpy takes a moment that other commands save

    parameters = {**_from_config(options.config), **_from_settings(options.settings)}
    try:
        law = laws.create(options.law, parameters)
    except ValueError as error:
        raise UsageError(str(error)) from None
    decisions: list[Decision] = []
    status = _replay_lines(law, decisions if options.plot is not None else None)
    if options.plot is not None:
        _draw(decisions, options.plot)
    return status


def _replay_lines(law: "Law", kept: "list[Decision] | None") -> int:
    from steelyard_controller.cli import replay_lines

    memory, previous_t_s = law.start(), None
    if isinstance(sys.stdin, TextIOWrapper):
        # Bytes other than UTF-8 are escaped: they make a malformed line.
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    for number, text in enumerate(_lines(sys.stdin), start=1):
        if not text.strip():
            continue
        try:
            snapshot = replay_lines.parse(text, previous_t_s=previous_t_s)
        except replay_lines.Malformed as error:
            sys.stdout.flush()
            print(f"steelyard replay: line {number}: {error}", file=sys.stderr)
            return Exit.USAGE
        memory, decision = law.step(memory, snapshot)
        previous_t_s = snapshot.t_s
        print(replay_lines.line_of(decision), flush=True)
        if kept is not None:
            kept.append(decision)
        elif console_program.is_output_lost():
            break
    return Exit.OK


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines; raise `UsageError` if they cannot be read: it is closed, or a folder."""
    try:
        yield from stream
    except OSError as error:
        raise UsageError(
            f"standard input cannot be read: {error.strerror}; give it a file of snapshots"
        ) from None


def _draw(decisions: "Sequence[Decision]", path: Path) -> None:
    try:
        from steelyard_controller.cli.replay_plot import plot

        plot(decisions, path)
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'steelyard-controller[plot]'") from None
    except ValueError as error:
        raise UsageError(f"--plot {path}: {error}") from None
    except OSError as error:
        raise Failure(Exit.OUTPUT_LOST, f"--plot {path} cannot be written: {error.strerror}") from None


def _from_settings(settings: Sequence[str]) -> dict[str, float]:
    parameters = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        parameters[name] = setting_values.as_number(value)
        if not equals or math.isnan(parameters[name]):
            raise UsageError(
                f"--set {setting[: connection_flags.MOST_SHOWN]}: give NAME=NUMBER, such as --set H=0.5"
            )
    return parameters


def _from_config(path: Path | None) -> Mapping[str, float]:
    """Return the parameters of a file: `H: 0.5` a line, or the same below the key `parameters`."""
    if path is None:
        return {}
    document = yaml_file.read(path, option="--config").value
    if isinstance(document, dict) and isinstance(document.get("parameters"), dict):
        document = document["parameters"]
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"--config {path}: give parameters by name, such as `H: 0.5`")
    return document
