"""The figures of a benchmark's table, and their ratios to another commit's. Pure.

A table has a line of titles and a line for each row, in columns that spaces separate.
"""

import statistics
from collections.abc import Mapping, Sequence

Figures = Mapping[str, float]
"""A figure by the name of its row and column."""


def of_cycle(printed: str) -> Figures:
    """Return the CPU ms of a tick by size (upstreams x servers x balancers) from bench_cycle.py's table."""
    rows = [words for line in printed.splitlines() if (words := line.split()) and words[0].isdigit()]
    return {
        f"{upstreams} x {int(servers) // int(upstreams)} x {balancers}": float(cpu_ms)
        for upstreams, servers, balancers, cpu_ms, *_ in rows
    }


def of_law(printed: str) -> Figures:
    """Return the ms of a step by law and number of peers from bench_law.py's table."""
    titles, *lines = printed.splitlines()
    sizes = [word for word in titles.split() if word.replace(",", "").isdigit()]
    return {
        f"{name}, {size} peers": float(ms)
        for name, *columns in map(str.split, lines)
        if name != "target:"
        for size, ms in zip(sizes, columns, strict=False)
    }


def table(this: Sequence[Figures], other: Sequence[Figures], commit: str) -> str:
    """Return this tree's medians beside another commit's, with the median of the rounds' ratios.

    this, other   figures by round; both ran a round one right after the other
    """
    names = [name for name in this[0] if all(name in figures for figures in (*this, *other))]
    if not names:
        return f"no figure is in each table of this tree and of {commit[:12]}"
    width = max(len(name) for name in names)
    lines = [f"{'ms':{width}} {'this tree':>10} {commit[:12]:>12} {'ratio':>7} {'of rounds':>15}"]
    for name in names:
        ours, theirs = [each[name] for each in this], [each[name] for each in other]
        ratios = [our / their for our, their in zip(ours, theirs, strict=True) if their]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        lines.append(
            f"{name:{width}} {statistics.median(ours):>10.3f} {statistics.median(theirs):>12.3f}"
            f" {ratio:>7} {spread:>15}"
        )
    return "\n".join(lines)
