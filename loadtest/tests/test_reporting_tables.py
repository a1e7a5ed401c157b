"""Tables declared once: Markdown and text of the same fields."""

from dataclasses import dataclass

from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.markdown import (
    Column,
    markdown,
    pivot,
    table,
    text_columns,
    without_empty_columns,
)


@dataclass(frozen=True)
class Row:
    name: str
    kind: str
    p99_ms: float | None


ROWS = (Row("a | b <x>", "ours", 12.34), Row("c", "theirs", None))
COLUMNS = (
    Column[Row]("picker", lambda row: row.name, "left"),
    Column[Row]("p99 ms", lambda row: wording.number(row.p99_ms)),
)


def test_markdown_aligns_figures_to_the_right_and_escapes_what_would_end_a_trial_or_begin_a_tag() -> None:
    assert markdown(table(ROWS, COLUMNS)) == (
        "| picker | p99 ms |\n| --- | ---: |\n| a \\| b &lt;x> | 12.3 |\n| c | – |"
    )


def test_a_group_has_a_line_before_its_first_item() -> None:
    lines = markdown(table(ROWS, COLUMNS, group=lambda row: row.kind)).splitlines()
    assert lines[2:] == ["| **ours** |  |", "| a \\| b &lt;x> | 12.3 |", "| **theirs** |  |", "| c | – |"]


def test_a_pivot_has_a_line_a_row_and_asks_for_each_field() -> None:
    fields = {(100, 1): "x", (1000, 2): "y"}
    made = pivot(
        "servers",
        [100, 1000],
        [1, 2],
        lambda row, column: fields.get((row, column), ""),
        row_text="{:,}".format,
    )
    assert markdown(made).splitlines()[0] == "| servers | 1 | 2 |"
    assert markdown(made).splitlines()[2:] == ["| 100 | x |  |", "| 1,000 |  | y |"]


def test_columns_without_any_figure_are_left_out() -> None:
    grid = without_empty_columns(text_columns(["a", "b", "c"], [["x", "–", "1"], ["y", "", "2"]]))
    assert grid.head == ("a", "c")
    assert [line.fields for line in grid.lines] == [("x", "1"), ("y", "2")]
