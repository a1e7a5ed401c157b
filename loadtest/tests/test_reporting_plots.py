"""Declared plots become small PNG files."""

from pathlib import Path

from PIL import Image
from steelyard_loadtest.reporting.plots import Mark, Panel, RowName, RowPanel, Rule, Series, draw


def test_panels_and_rows_are_drawn_into_a_png_of_256_colours(tmp_path: Path) -> None:
    lines = Panel(
        series=[
            Series(x=[3, 100], y=[1.0, 200.0], label="nginx", style={"color": "#0072B2"}),
            Series(x=[3, 100], y=[2.0, None], label="ours", below=[1.0, 0.0], above=[1.0, 0.0]),
        ],
        title="p99 (ms)",
        x_label="servers",
        x_counts=[3, 100],
        y_scale="auto",
        spans=[(10, 20, "#EEEEEE")],
        rules=[Rule(at=50, text="the bound"), Rule(at=5, axis="x", text="full")],
        legend="upper left",
    )
    nothing = Panel(series=[], empty="not to be read here", y_percent=True, y_limits=(0, 1))
    draw(
        tmp_path / "lines.png",
        [[lines, nothing]],
        size=(8, 4),
        title="A title",
        legend="outside lower center",
    )
    rows = RowPanel(
        rows=[[], [Mark(value=2, low=1, high=30, text="2 ± 1")], [Mark(value=3, marker="bar")]],
        x_label="ms",
        rules=[Rule(at=1, axis="x", dash="-")],
    )
    names = [RowName(text="servers"), RowName(text="one"), RowName(text="two", bold=True)]
    draw(tmp_path / "rows.png", [[rows, rows]], size=(8, 3), names=names, sharey=True)
    for name in ("lines.png", "rows.png"):
        with Image.open(tmp_path / name) as picture:
            assert picture.mode == "P"
            assert picture.size[0] == 960
