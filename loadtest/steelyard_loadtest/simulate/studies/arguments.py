"""What the flags of the studies take: text in, a value or argparse's error out. Pure."""

import argparse
import shlex
from pathlib import Path

MOST_SERVERS = 100_000
"""Ten times what one table holds, so that one may look beyond."""


def counts(text: str) -> tuple[int, ...]:
    """Take numbers of servers or load balancers, comma-separated; ascending out."""
    return tuple(sorted({_whole(part) for part in text.split(",")}))


def at_least_1(text: str) -> int:
    """Take a whole number from 1 on."""
    return _whole(text)


def add_common(parser: argparse.ArgumentParser, study: str, seeds: int, quick: str) -> None:
    """Add the flags that every study has."""
    flag = parser.add_argument
    flag("--quick", action="store_true", help=quick)
    flag("--seeds", type=at_least_1, metavar="N", help=f"runs a point, each with a seed of its own ({seeds})")
    flag("--seed", type=int, default=1, help="the first seed (%(default)s)")
    flag("--jobs", type=at_least_1, metavar="N", help="processes (one a core)")
    flag("--out", type=Path, default=Path(f"bench-results/{study}"), help="folder (%(default)s)")
    flag("--page", type=Path, help="also write the report between the marks of this page, the plot beside it")


def command(study: str, options: argparse.Namespace) -> str:
    """Return the command line that makes the same figures: neither where they go nor how fast."""
    words = ["steelyard-loadtest", "simulate", study]
    if options.quick:
        words.append("--quick")
    for name in ("servers", "load_balancers"):
        given = getattr(options, name, None)
        if given:
            words += [f"--{name.replace('_', '-')}", ",".join(map(str, given))]
    if options.seeds:
        words += ["--seeds", str(options.seeds)]
    if options.seed != 1:
        words += ["--seed", str(options.seed)]
    return shlex.join(words)


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST_SERVERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_SERVERS:,}")
    return int(text)
