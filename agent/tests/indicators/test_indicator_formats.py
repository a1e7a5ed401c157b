"""Numbers in a source's text, and messages if there are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent.indicators import text_formats
from steelyard_agent.indicators.declared import Indicator, Source, TextFormat
from steelyard_agent.indicators.text_formats import Series, SourceError

PAGE = """\
# HELP app_busy Workers that work.
# TYPE app_busy gauge
app_busy{pool="web",host="a b"} 3
app_busy{pool="web",host="}\\""} 4 1700000000000
app_busy{pool="mail"} 5
app_busy_seconds 7
# TYPE app_requests_total counter
app_requests_total{code="200"} 1e3
# TYPE app_hits counter
app_hits 12
# TYPE app_latency_seconds histogram
app_latency_seconds_bucket{le="+Inf"} 9
app_latency_seconds_sum 4.5
app_latency_seconds_count 9
# TYPE app_summary summary
app_summary{quantile="0.5"} 0.25
# TYPE app_broken gauge
app_broken NaN
app_unending +Inf
"""


def read(text_format: TextFormat, name: str, text: str, labels: tuple[tuple[str, str], ...] = ()) -> Series:
    source = Source(kind="file", target="/a", every_s=1.0)
    indicator = Indicator(
        name="a", source=source, text_format=text_format, amount=name, limit=1.0, labels=labels
    )
    return text_formats.read(indicator, name, text)


def refusal(text_format: TextFormat, name: str, text: str, labels: tuple[tuple[str, str], ...] = ()) -> str:
    with pytest.raises(SourceError) as raised:
        read(text_format, name, text, labels)
    return str(raised.value)


def test_a_gauges_series_are_chosen_by_labels() -> None:
    assert sorted(read("prometheus", "app_busy", PAGE).numbers.values()) == [3.0, 4.0, 5.0]
    web = read("prometheus", "app_busy", PAGE, (("pool", "web"),))
    assert sorted(web.numbers.values()) == [3.0, 4.0]
    assert not web.counter
    assert read("prometheus", "app_busy_seconds", PAGE).numbers == {(): 7.0}


@pytest.mark.parametrize(
    ("metric", "numbers"),
    [
        ("app_requests_total", {(("code", "200"),): 1000.0}),
        ("app_hits", {(): 12.0}),
        ("app_latency_seconds_sum", {(): 4.5}),
        ("app_latency_seconds_count", {(): 9.0}),
        ("app_latency_seconds_bucket", {(("le", "+Inf"),): 9.0}),
    ],
)
def test_what_counts_up_is_a_counter(metric: str, numbers: dict[text_formats.Labels, float]) -> None:
    assert read("prometheus", metric, PAGE) == Series(numbers, counter=True)


OPEN_METRICS = """\
# TYPE jobs counter
# UNIT jobs jobs
# HELP jobs Jobs done.
jobs_total{queue="a"} 100005 1520879607.789 # {trace_id="x"} 1.0
jobs_created{queue="a"} 1520430000.123 1520879607.789
# TYPE waits histogram
waits_bucket{le="+Inf"} 9 # {trace_id="y"} 0.5
waits_count 9
waits_sum 4.5
# TYPE temperatures gaugehistogram
temperatures_gcount 3
# TYPE odd_total gauge
odd_total 3
# EOF
"""


@pytest.mark.parametrize(
    ("metric", "number", "counter"),
    [
        ("jobs_total", 100005.0, True),
        ("jobs_created", 1520430000.123, False),  # a time, which does not count up
        ("waits_bucket", 9.0, True),
        ("waits_count", 9.0, True),
        ("waits_sum", 4.5, True),
        ("temperatures_gcount", 3.0, False),
        ("odd_total", 3.0, False),
    ],
)
def test_open_metrics_is_read_like_the_older_format(metric: str, number: float, counter: bool) -> None:
    series = read("prometheus", metric, OPEN_METRICS)
    assert (list(series.numbers.values()), series.counter) == ([number], counter)


def test_a_summarys_quantile_is_no_counter() -> None:
    assert not read("prometheus", "app_summary", PAGE).counter


def test_only_the_metrics_own_lines_are_parsed() -> None:
    assert read("prometheus", "a", "this is { no metric\na 1\nab{ 2\n# TYPE ab nonsense\n").numbers == {
        (): 1.0
    }


@pytest.mark.parametrize(
    ("metric", "labels", "message"),
    [
        ("app_idle", (), "there is no metric app_idle: look at the page"),
        ("app_busy", (("pool", "db"),), "there is no metric app_busy with pool='db': look at the page"),
        ("app_broken", (), "app_broken is nan"),
        ("app_unending", (), "app_unending is inf"),
    ],
)
def test_a_metric_that_says_nothing_is_said(
    metric: str, labels: tuple[tuple[str, str], ...], message: str
) -> None:
    assert refusal("prometheus", metric, PAGE, labels) == message


@pytest.mark.parametrize("line", ['a{b="1 3', "a three", "a ", "a{b=1} 3", 'a{b="1"}', "# TYPE a thing\na 1"])
def test_a_metrics_line_that_is_none_is_said(line: str) -> None:
    assert refusal("prometheus", "a", line).startswith("a is not in Prometheus's text format")


def test_a_metric_of_too_many_series_or_too_long_a_line_is_refused() -> None:
    many = "".join(f'a{{b="{number}"}} 1\n' for number in range(1001))
    assert refusal("prometheus", "a", many) == "a has more than 1000 series: choose some with labels"
    assert "more than 8192 characters" in refusal("prometheus", "a", f'a{{b="{"x" * 9000}"}} 1')


DOCUMENT = json.dumps(
    {
        "pool": {"active": 3, "a/b": {"m~n": 1.5}, "": 2},
        "list": [1, {"x": 7}],
        "on": True,
        "text": "5",
        "no": None,
    }
)


@pytest.mark.parametrize(
    ("pointer", "number"),
    [("/pool/active", 3.0), ("/pool/a~1b/m~0n", 1.5), ("/pool/", 2.0), ("/list/0", 1.0), ("/list/1/x", 7.0)],
)
def test_a_json_pointer_is_followed(pointer: str, number: float) -> None:
    assert read("json", pointer, DOCUMENT).numbers == {(): number}


def test_a_document_may_be_a_number_alone() -> None:
    assert read("json", "", "17").numbers == {(): 17.0}


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ("/pool/idle", "there is no /pool/idle in its JSON"),
        ("/pool/active/x", "there is no /pool/active/x in its JSON"),
        ("/list/2", "there is no /list/2 in its JSON"),
        ("/list/-", "there is no /list/- in its JSON"),
        ("/list/00", "there is no /list/00 in its JSON"),
        ("/on", "/on is not a number"),
        ("/text", "/text is not a number"),
        ("/no", "/no is not a number"),
        ("/pool", "/pool is not a number"),
    ],
)
def test_a_pointer_to_no_number_is_said(pointer: str, message: str) -> None:
    assert refusal("json", pointer, DOCUMENT) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>\n<body>", r"it is not JSON: '<html>\n<body>'"),
        ("", "it is not JSON: nothing"),
        ("[" * 100_000, "it is not JSON"),
        ("9" * 5000, "it is not JSON"),
        ("1" + "0" * 400, " is too large"),
        ("NaN", "the number is nan"),
        ("1e999", "the number is inf"),
        (f'"{"x" * 300_000}"', "the JSON is longer than 256 KiB: ask for less of it"),
    ],
)
def test_what_is_no_json_number_is_said(text: str, message: str) -> None:
    assert refusal("json", "", text).startswith(message)


def test_a_table_has_commas_or_blanks_between_its_columns() -> None:
    assert sorted(read("column", "b", 'a,b\n"x,y",1\nz,2\nw,\nv\n').numbers.values()) == [1.0, 2.0]
    assert list(read("column", "b", "a b  c\nx 1  2\n").numbers.values()) == [1.0]
    assert list(read("column", "b", "# a,b\nx,1\ny,2\n", (("a", "y"),)).numbers.values()) == [2.0]
    assert list(read("column", "b", "a,b\r\nx,1\r\n").numbers.values()) == [1.0]


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        ("", (), "there is no column b: it begins with nothing"),
        ("a,c\n1,2\n", (), "there is no column b: it begins with 'a,c\\n1,2\\n'"),
        ("a,b\n", (), "its table has no row with a b"),
        ("a,b\nx,1\n", (("a", "y"),), "its table has no row with a b and those labels"),
        ("a,b\nx,1\n", (("c", "y"),), "there is no column c"),
        ("a,b\nx,one\n", (), "b is 'one', not a number"),
        ("a,b\n" + "x,1\n" * 2000, (), "its table has more than 1000 rows"),
        ("a,b\n" + "\n" * 1_000_000, (), "its table has more than 1000 rows"),
        (f'a,b\n"{"x" * 200_000}",1\n', (), "it is no table: field larger than field limit"),
    ],
)
def test_a_table_without_the_column_is_said(
    text: str, labels: tuple[tuple[str, str], ...], message: str
) -> None:
    assert refusal("column", "b", text, labels).startswith(message)


def test_a_number_stands_after_words_or_alone() -> None:
    assert read("words", "busy:", "idle: 3 busy:  -1.5e2x").numbers == {(): -150.0}
    assert read("number", "", " 12\n").numbers == {(): 12.0}
    assert (
        refusal("words", "busy:", "idle: 3") == "there is no number after 'busy:': it begins with 'idle: 3'"
    )
    assert refusal("words", "busy:", "busy: many").startswith("there is no number after 'busy:'")
    assert refusal("number", "", "12 13") == "the text is '12 13', not a number"
    assert refusal("number", "", "") == "the text is nothing, not a number"
    assert refusal("number", "", "nan") == "the text is 'nan', not a number"


@given(
    text=st.one_of(st.text(), st.text(alphabet='ab{}=", \n\t#TYPE1.eNI/+-~:[]')),
    text_format=st.sampled_from(["prometheus", "json", "column", "words", "number"]),
)
def test_any_text_is_read_or_refused(text: str, text_format: TextFormat) -> None:
    try:
        series = read(text_format, "/a" if text_format == "json" else "a", text)
    except SourceError:
        return
    assert series.numbers
