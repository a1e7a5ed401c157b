"""The figures that `make bench-law BESIDE=COMMIT` reads from two tables, and their ratios."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import ratios

CYCLE = """\
upstreams  servers balancers  CPU ms a tick  us a server  elapsed ms
# overview of 10 servers: 0.9 ms
        1       10         1            {}        430.0         4.4
     2000    20000         1          {}         45.3       990.1
"""

LAW = """\
median CPU ms a step               10         100       1,000      10,000                  growth
steelyard                       0.655       0.734       2.484      {}        x1.1  x3.4  x8.3
static                          0.088       0.069       0.388       1.264       x0.8  x5.6  x3.3
target: 10,000 peers in 50 ms: MISSED
"""


def test_a_tick_s_table_is_read_by_size() -> None:
    figures = ratios.of_cycle(CYCLE.format("4.3", "905.6"))
    assert figures == {"1 x 10 x 1": 4.3, "2000 x 10 x 1": 905.6}


def test_a_law_s_table_is_read_by_law_and_number_of_peers() -> None:
    figures = ratios.of_law(LAW.format("20.931"))
    assert len(figures) == 8
    assert figures["steelyard, 10,000 peers"] == 20.931
    assert figures["static, 10 peers"] == 0.088


def test_rounds_are_compared_one_by_one_so_that_a_busy_round_slows_both() -> None:
    this = [ratios.of_cycle(CYCLE.format(*row)) for row in (("2.0", "300"), ("9.0", "900"), ("2.0", "300"))]
    other = [ratios.of_cycle(CYCLE.format(*row)) for row in (("4.0", "400"), ("18.0", "900"), ("5.0", "400"))]
    titles, small, large = ratios.table(this, other, "3172828e").splitlines()
    assert titles.split() == ["ms", "this", "tree", "3172828e", "ratio", "of", "rounds"]
    assert small.split()[5:] == ["2.000", "5.000", "0.50", "0.40", "to", "0.50"]
    assert large.split()[5:] == ["300.000", "400.000", "0.75", "0.75", "to", "1.00"]


def test_a_row_that_only_one_of_them_has_is_left_out() -> None:
    this, other = {"a": 1.0, "b": 1.0}, {"a": 2.0}
    assert [line.split()[0] for line in ratios.table([this], [other], "v0.1.0").splitlines()] == ["ms", "a"]


def test_tables_without_a_common_row_are_no_error() -> None:
    text = ratios.table([{"a": 1.0}], [{"b": 1.0}], "v0.1.0")
    assert text == "no figure is in each table of this tree and of v0.1.0"


def test_what_took_no_time_has_no_ratio() -> None:
    assert ratios.table([{"a": 1.0}], [{"a": 0.0}], "v0.1.0").splitlines()[1].split() == [
        "a",
        "1.000",
        "0.000",
        "-",
    ]
