"""Words, CSV, Markdown between marks, flags, figures over repeats and templates: texts in, texts out."""

import argparse
import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from steelyard_loadtest.reporting import flags, wording
from steelyard_loadtest.reporting.conditions import kept, recorded
from steelyard_loadtest.reporting.csv_text import Field, csv_text, names_of
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.markdown import as_section, bullets, document, image
from steelyard_loadtest.reporting.publish import Page, check_page, fill_page, write_page, write_text
from steelyard_loadtest.reporting.statistics import grouped, interval, spread, spread_of
from steelyard_loadtest.templates import lua, render_file


@dataclass(frozen=True)
class Load:
    p99_ms: float | None


@dataclass(frozen=True)
class Round:
    contender: str
    load: Load


ROUNDS = (Round("nginx", Load(1.23456789)), Round("envoy", Load(None)), Round("nginx", Load(3.0)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (wording.number(1234.56), "1,235"),
        (wording.number(12.34), "12.3"),
        (wording.number(None), "–"),
        (wording.number(math.inf), "never"),
        (wording.plus_minus(12.34, 0.5), "12.3 ± 0.5"),
        (wording.plus_minus(12.34, math.nan, 2), "12.34"),
        (wording.milliseconds(9.96), "10.0"),
        (wording.milliseconds(1234.5), "1,234"),
        (wording.ratio(0.9996), "0.9996"),
        (wording.small_percent(0.0001), "<0.1 %"),
        (wording.percent(0.256), "26 %"),
        (wording.clock(65), "1:05"),
        (wording.clock(7209), "2:00:09"),
        (wording.duration(3600 * 3 + 290), "3 h 05 min"),
        (wording.counted(1, "fault"), "1 fault"),
        (wording.sentence(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_figures_are_written_as_people_read_them(written: str, expected: str) -> None:
    assert written == expected


def test_csv_reaches_into_objects_and_leaves_what_is_unknown_empty() -> None:
    columns: list[Field[Round]] = [
        "contender",
        ("p99_ms", "load.p99_ms"),
        ("first", lambda row: row.contender[0]),
    ]
    assert csv_text(ROUNDS[:2], columns, digits=4) == "contender,p99_ms,first\nnginx,1.235,n\nenvoy,,e\n"
    assert csv_text([{"a": 1}, {"a": math.nan}], ["a", "b"]) == "a,b\n1,\n,\n"
    assert names_of(Round, without=["load"]) == ["contender"]


def test_a_compressed_file_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    file = write_text(tmp_path / "new" / "rounds.csv.gz", "a,b\n1,2\n")
    assert file.read_bytes() == gzip.compress(b"a,b\n1,2\n", mtime=0)


def test_a_report_leaves_out_what_is_empty() -> None:
    assert document("one\n", "", None, image("x", None), bullets([]), bullets({"a": "b"}, "All:")) == (
        "one\n\nAll:\n\n- a: b\n"
    )


def test_a_report_on_a_page_is_one_level_down_and_has_its_plots_elsewhere() -> None:
    made = as_section("# Title\n\n## Part\n![x](plots/x.png)\n", "plots", "plots/page")
    assert made == "### Part\n![x](plots/page/x.png)\n"


def test_conditions_of_several_runs_into_a_folder_stand_beside_each_other(tmp_path: Path) -> None:
    first = {"Command": "`a; b`", "Date": "Monday", "Machine": "2 cores"}
    assert recorded(tmp_path) == {}
    assert kept(tmp_path, first, new=True) == first
    second = {**first, "Date": "Tuesday", "Limits": "quotas"}
    for _ in range(2):
        assert kept(tmp_path, second, new=True) == {**second, "Date": "Monday; Tuesday"}
    assert kept(tmp_path, {"Date": "Friday"}, new=False)["Date"] == "Monday; Tuesday"


def test_the_same_report_goes_to_a_folder_and_between_the_marks_of_a_page(tmp_path: Path) -> None:
    report = Page(
        text=lambda paths: document("Measured.", image("CPU", paths["cpu"])),
        plots={"cpu": lambda file: file.write_bytes(b"png")},
    )
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n")
    check_page(page, "x")
    with pytest.raises(ValueError, match="y: begin"):
        check_page(page, "y")
    written = write_page(report, tmp_path / "out", "scale")
    assert [file.name for file in written] == ["scale.md", "cpu.png"]
    assert written[0].read_text() == "Measured.\n\n![CPU](cpu.png)\n"
    fill_page(report, page, "x", folder="plots/page", prefix="x-")
    assert page.read_text() == (
        "before\n<!-- x: begin -->\n\nMeasured.\n\n![CPU](plots/page/x-cpu.png)\n\n<!-- x: end -->\nafter\n"
    )
    assert (page.parent / "plots/page/x-cpu.png").read_bytes() == b"png"


@pytest.mark.parametrize(
    ("take", "text", "value"),
    [
        (flags.whole(0, 100, "rounds"), " 5", 5),
        (flags.number(0.1, 60, "seconds"), "0.5", 0.5),
        (flags.ascending(flags.whole(1, 9, "servers")), "3,1,3", (1, 3)),
        (flags.names({"a": 1, "b": 2}), "b, a", (2, 1)),
    ],
)
def test_a_flag_becomes_its_value(take: Callable[[str], object], text: str, value: object) -> None:
    assert take(text) == value


@pytest.mark.parametrize(
    ("take", "text", "says"),
    [
        (flags.whole(0, 100, "rounds"), "101", "whole number of rounds from 0 to 100"),
        (flags.whole(0, 100, "rounds"), "9" * 5000, "whole number of rounds"),
        (flags.whole(0, 100, "rounds"), "²", "whole number of rounds"),
        (
            flags.number(0.1, 60, "seconds", ": a shorter one tells nothing"),
            "nan",
            "shorter one tells nothing",
        ),
        (flags.names({"a": 1, "b": 2}), "a,c", "there is no 'c'; there are a, b"),
    ],
)
def test_a_flag_that_is_not_understood_says_what_is(
    take: Callable[[str], object], text: str, says: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=says):
        take(text)


def test_flags_that_differ_from_their_defaults_are_written_again() -> None:
    options = argparse.Namespace(quick=True, seeds=20, load_balancers=(1, 4), seed=7, only=None)
    words = flags.given(options, {"seeds": 20}, ["quick", "seeds", "load_balancers", "seed", "only"])
    assert words == ["--quick", "--load-balancers", "1,4", "--seed", "7"]


def test_a_commands_status_is_1_with_a_line_for_a_page_that_is_not_there_and_130_after_ctrl_c(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    assert exit_status("soak", lambda: None) == 0
    assert exit_status("soak", stopped) == INTERRUPTED
    assert exit_status("soak", lambda: check_page(Path("/nowhere"), "soak")) == 1
    assert capsys.readouterr().err.startswith("steelyard-loadtest soak: ")


def test_repeats_become_one_figure() -> None:
    figure = spread([3.0, 1.0, 8.0])
    assert (figure.median, figure.lowest, figure.highest, figure.mean) == (3.0, 1.0, 8.0, 4.0)
    assert figure.sigma == pytest.approx(math.sqrt(13))
    assert spread_of(ROUNDS, lambda row: row.load.p99_ms) == spread([1.23456789, 3.0])
    assert spread_of(ROUNDS[1:2], lambda row: row.load.p99_ms) is None
    assert list(grouped(ROUNDS, lambda row: row.contender)) == ["nginx", "envoy"]


def test_an_interval_is_students() -> None:
    # Two values have one degree of freedom: t is 12.706 at 95 %, and s / sqrt(2) is 1.
    assert interval([1.0, 3.0]).half_width == pytest.approx(12.706, abs=0.001)
    assert math.isnan(interval([1.0]).half_width)


def test_a_template_that_uses_what_nobody_gives_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "upstream.conf"
    file.write_text(
        "upstream web {\n    {% for peer in peers %}\n    server {{ peer }};\n    {% endfor %}\n}\n"
    )
    wanted = "upstream web {\n    server a:1;\n    server b:2;\n}\n"
    assert render_file(file, {"peers": ["a:1", "b:2"]}) == wanted
    with pytest.raises(UndefinedError):
        render_file(file, {})


def test_templates_include_and_extend_those_beside_them(tmp_path: Path) -> None:
    (tmp_path / "part.conf").write_text("user {{ user }};\n")
    (tmp_path / "nginx.conf").write_text('{% include "part.conf" %}\nset $x {{ "a\\"b" | json }};\n')
    assert render_file(tmp_path / "nginx.conf", {"user": "root"}) == 'user root;\nset $x "a\\"b";\n'
    (tmp_path / "http.conf").write_text("http {\n{% block servers %}{% endblock %}\n}\n")
    (tmp_path / "one.conf").write_text(
        '{% extends "http.conf" %}\n{% block servers %}listen {{ port }};\n{% endblock %}\n'
    )
    assert render_file(tmp_path / "one.conf", {"port": 80}) == "http {\nlisten 80;\n}\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a "b" ü', '"a \\"b\\" ü"'),
        (0.5, "0.5"),
        (True, "true"),
        ([], "{}"),
        (["a", 1], '{ "a", 1 }'),
        ({"web": {"bootstrap": ["a:1"]}, "no": None}, '{ web = { bootstrap = { "a:1" } } }'),
        ({"not a name": 1}, '{ ["not a name"] = 1 }'),
        (["x" * 50, "y" * 50], f'{{\n    "{"x" * 50}",\n    "{"y" * 50}",\n}}'),
    ],
)
def test_a_value_is_written_as_lua(value: object, text: str) -> None:
    assert lua(value, indent=0) == text
