"""Examples and exit statuses of each subcommand: the end of its --help. Pure.

docs/reference/exit-status.md has the same table, and a test holds commands and page to it.
"""

import argparse
from collections.abc import Mapping

from steelyard_protocol.help_text import HelpFormatter, epilog

from steelyard_controller.cli.exit_status import MEANINGS, Exit

_ALWAYS = (Exit.OK, Exit.USAGE, Exit.OUTPUT_LOST, Exit.INTERRUPTED)
_ASKS = (*_ALWAYS, Exit.UNREACHABLE, Exit.DENIED)
_READS = (*_ASKS, Exit.UNKNOWN)
_CHANGES = (*_READS, Exit.NOT_WELL, Exit.NOT_DONE)

STATUSES: Mapping[str, tuple[Exit, ...]] = {
    "status": (*_READS, Exit.NOT_WELL),
    "upstreams": _ASKS,
    "weights": _READS,
    "explain": _READS,
    "history": _READS,
    "audit": _ASKS,
    "page": _ALWAYS,
    "watch": _READS,
    "drain": _CHANGES,
    "undrain": _CHANGES,
    "state": _CHANGES,
    "pin": _CHANGES,
    "unpin": _CHANGES,
    "apply": (*_ASKS, Exit.NOT_DONE),
    "save": _READS,
    "keys": _ALWAYS,
    "laws": _ALWAYS,
    "replay": _ALWAYS,
    "completion": _ALWAYS,
}
"""The exit statuses that a subcommand may have."""

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "status": (
        "steelyard status                       # everything; the status is 1 if something is degraded",
        "steelyard status web                   # and the servers of one upstream",
        "steelyard status web --search 10.0.1.  # the servers with this text in name or address",
    ),
    "upstreams": ("steelyard upstreams", "steelyard upstreams --json"),
    "weights": ("steelyard weights web",),
    "explain": ("steelyard explain web server-1     # UPSTREAM may be left out if there is only one",),
    "history": (
        "steelyard history web                            # the last 15 minutes, each second",
        "steelyard history web --seconds 3600 --step 10   # an hour, every 10 seconds",
    ),
    "audit": (
        "steelyard audit --token-file token            # the 50 newest changes",
        "steelyard audit web --limit 10 --before 120   # ten changes of web before the one with ID 120",
    ),
    "page": ("steelyard page",),
    "watch": (
        "steelyard watch web",
        "steelyard watch web --count 10 --json   # ten ticks for a script",
    ),
    "drain": (
        "steelyard drain web server-1 --wait   # returns when a weight table has it",
        "steelyard undrain web server-1        # takes it back",
    ),
    "undrain": ("steelyard undrain web server-1",),
    "state": (
        "steelyard state web server-1 down     # out of service",
        "steelyard state web server-1 backup   # used only while no other server is available",
    ),
    "pin": ("steelyard pin web server-1 25    # 25 % of the weight of web",),
    "unpin": ("steelyard unpin web server-1",),
    "apply": (
        "steelyard apply upstreams.yaml --dry-run   # shows the changes first",
        "steelyard apply upstreams.yaml",
        "steelyard apply upstreams.yaml --prune     # also removes servers that are not in the file",
    ),
    "save": (
        "steelyard save --output upstreams.yaml   # a copy to restore from with `steelyard apply`",
        "steelyard save web",
    ),
    "keys": (
        "steelyard keys agent web/server-1 --key-file key   # for the samples of one server",
        "steelyard keys lb edge-1 --key-file key            # for one load balancer",
    ),
    "laws": ("steelyard laws",),
    "replay": (
        "steelyard replay --law steelyard < snapshots > decisions",
        "steelyard replay --law steelyard --set H=0.5 --plot decisions.png < snapshots > decisions",
    ),
    "completion": (
        "source <(steelyard completion bash)   # in ~/.bashrc",
        "source <(steelyard completion zsh)    # in ~/.zshrc, behind compinit",
    ),
}
"""Command lines by subcommand, each with its purpose behind a `#` if it is not plain."""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Give the help of each subcommand its examples and exit statuses."""
    for name, parser in subparsers.choices.items():
        parser.formatter_class = HelpFormatter
        statuses = {int(each): MEANINGS[each] for each in sorted(STATUSES.get(name, ()))}
        parser.epilog = epilog(EXAMPLES.get(name, ()), statuses)
