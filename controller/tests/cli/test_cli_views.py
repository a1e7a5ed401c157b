"""The look of the command's answers: literal texts, at a terminal's widths and with its colours."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.cli import api_documents
from steelyard_controller.cli.terminal import numbers
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, Field, table
from steelyard_controller.cli.views import (
    explanation_lines,
    live_table,
    peer_change,
    peer_table,
    service_status,
    share_history,
)

from .cli_documents import live, overview, row, service, unknown

PIPED = Look()
ANSI = re.compile(r"\x1b\[[0-9;]*m")

DEGRADED = api_documents.Service.model_validate(service(degraded=["state: away"]))
MANY = api_documents.Upstreams.model_validate(
    {
        "upstreams": [],
        "controller": {"id": "a", "degraded": ["state: away"]},
        "troubles": ["load balancer edge-1: silent at 2,000 upstreams"],
    }
)


def text(lines: list[str]) -> str:
    return "\n".join(lines)


def of(document: dict[str, Any]) -> api_documents.Overview:
    return api_documents.Overview.model_validate(document)


def test_an_upstream_at_full_width() -> None:
    assert text(service_status.of_overview(of(overview()), PIPED)) == (
        "web  law steelyard, picker vnswrr2, revision 4, table 3.118, H 0.3, L 0.4\n"
        "PEER      STATE  WEIGHT  SHARE %                PIN %  SCORE  CPU %  NET %  IO %  MEM %  DONE/tick"
        "  FAILED/tick  IN FLIGHT  WAITING  OPEN  LATENCY ms  SAMPLE s  BASELINE  ADDRESS\n"
        "server-1  up        267     26.7  ████▍                 0.62     42      2     0      -        812"
        "            0          3        1     2        4.12       0.8       333  10.0.0.11:80\n"
        "server-2  up        733     73.3  ████████████   73.3      -      -      -     -      -          -"
        "            -          0                          -         -       333  [fd00::12]:80\n"
        "server-3  drain     333      0.0                           -      -      -     -      -          -"
        "            -          0                          -         -       333  10.0.0.11:80\n"
        "\n"
        "LOAD BALANCER  RUNG       SERVES  REPORT s\n"
        "edge-1         fresh      3.118        0.4\n"
        "edge-2         no report  -              -"
    )


def test_a_load_balancer_that_nobody_declared_is_named() -> None:
    document = overview()
    document["load_balancers"]["edge-1"]["declared"] = False
    lines = service_status.of_overview(of(document), PIPED)
    assert lines[-1] == "announced, not declared in load_balancers: edge-1"
    nobody = service_status.of_overview(of({**document, "load_balancers": {}}), PIPED)
    assert nobody[-1] == "no load balancer reports traffic, and none is declared"


SIX = {
    **{
        each: {"used": True, "knee": 0.0, "weight": 0.2, "reporting": 3}
        for each in peer_table.BUILT_IN_INDICATORS
    },
    "workers": {"used": True, "knee": 0.5, "weight": 0.2, "reporting": 0},
    "queue": {"used": False, "knee": None, "weight": None, "reporting": 1},
}


def test_further_indicators_have_columns_and_those_without_effect_are_named() -> None:
    used = {"cpu": 0.42, "net": 0.02, "io": 0.0, "mem": None, "workers": None, "queue": 0.375}
    document = of(overview(live(utilization=used), indicators=SIX))
    lines = service_status.of_overview(document, PIPED)
    assert "IO %  MEM %  WORKERS %  QUEUE %  DONE/tick" in lines[1]
    assert lines[2].split()[6:12] == ["42", "2", "0", "-", "-", "38"]
    assert "reported and not declared, so without effect: queue" in lines
    shown = text(explanation_lines.of_explanation("web", explanation(indicators=SIX), PIPED))
    assert "indicator cpu      load from 0 on, 3 report it" in shown
    assert "indicator workers  load from 0.5 on, no server reports it" in shown
    assert "indicator queue    not declared, so without effect; 1 report it" in shown


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    assert text(peer_table.of_overview(of(overview()), Look(width=60))) == (
        "PEER      STATE  WEIGHT  SHARE %  PIN %  CPU %  SAMPLE s\n"
        "server-1  up        267     26.7            42       0.8\n"
        "server-2  up        733     73.3   73.3      -         -\n"
        "server-3  drain     333      0.0             -         -"
    )


def test_a_very_narrow_terminal_gets_shorter_names() -> None:
    assert text(peer_table.of_overview(of(overview()), Look(width=30))) == (
        "PEER    STATE  WEIGHT  SHARE %\n"
        "serve…  up        267     26.7\n"
        "serve…  up        733     73.3\n"
        "serve…  drain     333      0.0"
    )


def test_a_column_that_says_nothing_of_anybody_is_left_out() -> None:
    without = peer_table.of_overview(of(overview(live(), live("server-2"))), PIPED)
    assert "PIN %" not in without[0]
    assert "PIN %" in peer_table.of_overview(of(overview(live(pin=5.0))), PIPED)[0]


@given(
    st.integers(min_value=1, max_value=240),
    st.lists(
        st.builds(
            live,
            st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
            state=st.sampled_from(["up", "drain", "down", "backup"]),
            weight=st.integers(1, 1_000_000),
            share=st.floats(0, 1),
            pin=st.none() | st.floats(0.1, 99),
            latency_ms=st.none() | st.floats(0, 1e9),
        ),
        max_size=5,
    ),
    st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(width: int, rows: list[dict[str, Any]], colour: bool) -> None:
    document = of(overview(*rows, degraded=["memcached 127.0.0.1:11211: connection refused"], alert=True))
    look = Look(width=width, colour=colour)
    lines = [
        *service_status.of_overview(document, look),
        *service_status.of_service(api_documents.Service.model_validate(service()), look),
        *service_status.of_upstreams([api_documents.Row.model_validate(row())], look),
        *live_table.screen(document, DEGRADED, ["server-1: state up -> drain"], look, 24),
        *service_status.of_all(MANY, None, look),
    ]
    assert max(len(ANSI.sub("", line)) for line in lines) <= width


def test_no_colour_no_escape() -> None:
    document = of(overview(alert=True, degraded=["x"], refused={"now": {"a": "b"}, "count": {}}))
    assert "\x1b" not in text(service_status.of_overview(document, Look(width=200)))
    coloured = text(service_status.of_overview(document, Look(width=200, colour=True)))
    assert "\x1b[" in coloured
    assert ANSI.sub("", coloured) == text(service_status.of_overview(document, Look(width=200)))


def test_what_somebody_wrote_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\n\u202e"
    document = of(overview(refused={"now": {f"sample of {evil}": evil}, "count": {}}, degraded=[evil]))
    shown = text(service_status.of_overview(document, PIPED))
    assert shown.splitlines()[-2:] == [
        "refused: sample of \ufffd]0;owned\ufffd\ufffd[2J\ufffd\ufffd\ufffd: "
        "\ufffd]0;owned\ufffd\ufffd[2J\ufffd\ufffd\ufffd",
        "degraded: \ufffd]0;owned\ufffd\ufffd[2J\ufffd\ufffd\ufffd",
    ]


def test_high_load_and_what_is_wrong_are_said() -> None:
    document = of(
        overview(
            live(score=0.2, sample_age_s=12.0, silent=True, failed_per_tick=3.0),
            alert=True,
            refused={"now": {"sample of server-2": "unsigned: no signature"}, "count": {"unsigned": 3}},
            degraded=["memcached 127.0.0.1:11211: connection refused"],
        )
    )
    lines = service_status.of_overview(document, Look(width=200, colour=True))
    assert "\x1b[1;31m  high load\x1b[0m" in lines[0]
    assert "\x1b[1;31m 0.20\x1b[0m" in lines[2]
    assert "\x1b[33m    12.0\x1b[0m" in lines[2]
    assert ANSI.sub("", lines[-2]) == "refused: sample of server-2: unsigned: no signature"
    assert ANSI.sub("", lines[-1]) == "degraded: memcached 127.0.0.1:11211: connection refused"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "edge-a-8081 leads in term 3  state in redis, up 2 h 5 min, version 0.1.0"),
        (
            {"installation": "shop"},
            "edge-a-8081 leads in term 3  installation shop, state in redis, up 2 h 5 min, version 0.1.0",
        ),
        (
            {"role": "standby", "term": None, "leader": {"id": "edge-b", "url": "http://10.0.0.6:8081"}},
            "edge-a-8081 stands by; edge-b leads (http://10.0.0.6:8081)"
            "  state in redis, up 2 h 5 min, version 0.1.0",
        ),
        (
            {"role": "waiting", "leader": None, "state": "memory", "uptime_s": 59.9},
            "edge-a-8081 waits: no controller leads now  state in memory only, up 59 s, version 0.1.0",
        ),
    ],
)
def test_the_controller_says_what_it_is(changes: dict[str, Any], shown: str) -> None:
    assert service_status.of_service(api_documents.Service.model_validate(service(**changes)), PIPED) == [
        shown
    ]


@pytest.mark.parametrize(
    ("changes", "rows", "well"),
    [
        ({}, [row()], True),
        ({}, [], True),
        ({"role": "standby"}, [row()], True),
        ({"role": "waiting"}, [], False),
        ({"degraded": ["state: away"]}, [row()], False),
        ({}, [row(), row("api", ready=False)], False),
        ({}, [row(degraded=["publishing: too large"])], False),
        ({"role": "standby", "leader_degraded": ["state: away"]}, [row()], False),
    ],
)
def test_well_is_led_ready_and_not_degraded(
    changes: dict[str, Any], rows: list[dict[str, Any]], well: bool
) -> None:
    asked = dict(changes)
    leader = {"id": "a", "degraded": asked.pop("leader_degraded", asked.get("degraded", []))}
    upstreams = api_documents.Upstreams.model_validate({"upstreams": rows, "controller": leader})
    document = api_documents.Service.model_validate(service(**asked))
    assert service_status.well(document, upstreams, upstreams.upstreams) is well


def test_a_fault_of_the_controller_is_shown_once_also_by_a_standby() -> None:
    leads = api_documents.Service.model_validate(service(id="a", degraded=["state: away"]))
    stands_by = api_documents.Service.model_validate(service(id="b", role="standby"))
    assert text(service_status.of_service(leads, PIPED)).count("state: away") == 1
    assert service_status.of_all(MANY, leads, PIPED) == ["load balancer edge-1: silent at 2,000 upstreams"]
    assert service_status.of_all(MANY, stands_by, PIPED) == [
        "degraded at a: state: away",
        "load balancer edge-1: silent at 2,000 upstreams",
    ]


def test_a_watch_tells_a_change_of_leader_and_the_beginning_and_end_of_a_fault() -> None:
    well = DEGRADED.model_copy(update={"degraded": []})
    assert live_table.news(None, well) == [f"{DEGRADED.leader.id} leads"]  # type: ignore[union-attr]
    assert live_table.news(well, DEGRADED) == ["degraded: state: away"]
    assert live_table.news(DEGRADED, well) == ["no longer degraded: state: away"]
    assert live_table.news(well, well) == []


def test_the_upstreams_in_a_table() -> None:
    rows = [
        row(headroom=0.286),
        row("api", ready=False),
        row("shop", degraded=["state: away", "publishing: too large"]),
    ]
    assert text(
        service_status.of_upstreams([api_documents.Row.model_validate(each) for each in rows], PIPED)
    ) == (
        "UPSTREAM  LAW        PICKER   PEERS  REVISION  LEFT %  STATUS\n"
        "web       steelyard  vnswrr2      3         4      29  ok\n"
        "api       steelyard  vnswrr2      3         4       -  not ready: no tick yet\n"
        "shop      steelyard  vnswrr2      3         4       -  degraded: state: away; publishing: too large"
    )


def test_no_upstream_says_how_to_declare_one() -> None:
    assert "steelyard apply FILE" in text(service_status.of_upstreams([], PIPED))


TABLE: dict[str, Any] = {
    "upstream": "web", "term": 3, "generation": 118, "law": "static", "picker": "swrr",
    "peers": [
        {"id": "a", "address": "10.0.0.1:80", "weight": 3, "baseline": 3, "state": "up"},
        {"id": "b", "address": "10.0.0.2:80", "weight": 1, "baseline": 1, "state": "up"},
        {"id": "c", "address": "10.0.0.3:80", "weight": 9, "baseline": 9, "state": "backup"},
    ],
}  # fmt: skip


def test_a_weight_table_with_bars_relative_to_the_largest_share() -> None:
    document = api_documents.Table.model_validate(TABLE)
    assert text(peer_table.of_table(document, Look(ascii_only=True))) == (
        "web  table 3.118, law static, picker swrr\n"
        "PEER  STATE   WEIGHT  SHARE %                BASELINE  ADDRESS\n"
        "a     up           3     75.0  ############         3  10.0.0.1:80\n"
        "b     up           1     25.0  ####                 1  10.0.0.2:80\n"
        "c     backup       9      0.0                       9  10.0.0.3:80"
    )


def test_backups_have_the_shares_while_nobody_is_up() -> None:
    rows = [{**each, "state": "down" if each["state"] == "up" else "backup"} for each in TABLE["peers"]]
    assert peer_table.shares_of(api_documents.Table.model_validate({**TABLE, "peers": rows})) == [
        0.0,
        0.0,
        1.0,
    ]
    assert peer_table.shares_of(api_documents.Table.model_validate({**TABLE, "peers": []})) == []


def explanation(**changes: Any) -> api_documents.Explanation:
    return api_documents.Explanation.model_validate(
        {
            "id": "server-1", "law": "steelyard", "weight": 267.3, "weight_before": 270.1, "published": 89,
            "baseline": 333.3, "score": 0.6217, "capacity_estimate": 410.4, "alert": False,
            "entropy_weights": {"cpu": 0.7, "net": 0.1, "io": 0.1, "mem": 0.1},
            "figures": {"residual_cpu": 0.58, "backlog_s": None}, "clamps": ["floor"],
            "parameters": {"H": 0.3}, "sentence": "267: does 410 requests per busy second",
            "shadows": {"paper": {"weight": 312.0, "sentence": "312: no score is at most H = 0.3"}},
            **changes,
        }
    )  # fmt: skip


def test_an_explanation_begins_with_the_sentence() -> None:
    assert text(explanation_lines.of_explanation("web", explanation(), PIPED)) == (
        "web/server-1\n"
        "267: does 410 requests per busy second\n"
        "\n"
        "law                steelyard\n"
        "weight             267 (before: 270), 89 in the table\n"
        "baseline weight    333\n"
        "score              0.622\n"
        "capacity estimate  410\n"
        "entropy weights    cpu 0.70, net 0.10, io 0.10, mem 0.10\n"
        "clamps hit         floor\n"
        "\n"
        "figures\n"
        "  residual_cpu  0.58\n"
        "  backlog_s     -\n"
        "\n"
        "parameters\n"
        "  H  0.3\n"
        "\n"
        "shadow paper\n"
        "would give 312: no score is at most H = 0.3"
    )


def test_a_sentence_is_broken_between_words() -> None:
    lines = explanation_lines.of_explanation("web", explanation(), Look(width=30))
    assert lines[1:3] == ["267: does 410 requests per", "busy second"]


def declared(**changes: Any) -> api_documents.Declared:
    return api_documents.Declared.model_validate({"id": "server-1", "address": "10.0.0.11:80", **changes})


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ({}, {"state": "drain"}, "web/server-1: state up → drain"),
        ({}, {"pin": 25.0}, "web/server-1: pin none → 25 %"),
        ({"pin": 25.0}, {"pin": 12.5}, "web/server-1: pin 25 % → 12.5 %"),
        ({"state": "drain"}, {}, "web/server-1: state drain → up"),
        ({}, {}, "web/server-1: nothing to do, it is so already (state up, pin none)"),
    ],
)
def test_a_change_says_before_and_after(before: dict[str, Any], after: dict[str, Any], shown: str) -> None:
    assert peer_change.of_change("web", declared(**before), declared(**after), PIPED) == shown


def test_shares_before_and_after_of_those_that_moved() -> None:
    before = of(overview(live("a", share=0.5), live("b", share=0.3), live("c", share=0.2)))
    after = of(overview(live("a", share=0.0), live("b", share=0.8), live("c", share=0.2), live("d", share=0)))
    assert text(peer_change.of_shares(before, after, PIPED)) == (
        "PEER  SHARE % BEFORE  AFTER  CHANGE\n"
        "a               50.0    0.0   -50.0\n"
        "b               30.0   80.0   +50.0\n"
        "d                  -    0.0       -"
    )
    assert peer_change.of_shares(before, before, PIPED) == ["no share has moved"]


def test_draining_the_last_one_is_said() -> None:
    assert peer_change.alone(of(overview()), PIPED) == []
    assert peer_change.alone(of(overview(live(state="drain"), live("b", state="backup"))), PIPED) == [
        "no server of web is up: its backups serve now"
    ]
    (line,) = peer_change.alone(of(overview(live(state="drain"))), PIPED)
    assert line == "no server of web is up: requests get a 502 until one is"


def test_history_draws_each_course() -> None:
    moments = [
        {"at_ms": 1000 * at, "ids": ["a", "b"], "weight": [1, 1], "share": [at / 8, 1 - at / 8]}
        for at in range(9)
    ]
    document = api_documents.History.model_validate({"upstream": "web", "moments": moments})
    assert text(share_history.of_history(document, PIPED)) == (
        "web  9 moments of the last 8 s\n"
        "PEER  SHARE % NOW  LEAST   MOST  COURSE\n"
        "a           100.0    0.0  100.0  ▁▂▃▄▅▅▆▇█\n"
        "b             0.0    0.0  100.0  █▇▆▅▅▄▃▂▁"
    )
    empty = api_documents.History(upstream="web", moments=[])
    assert share_history.of_history(empty, PIPED) == ["web: nothing is remembered yet"]


def test_the_screen_is_never_higher_than_the_terminal() -> None:
    document = of(overview(*(live(f"server-{n}") for n in range(100)), degraded=["publishing: away"]))
    lines = live_table.screen(
        document, DEGRADED, ["changed: server-1: state up -> drain"], Look(width=80), 24
    )
    assert len(lines) == 24
    assert lines[15:] == [
        "87 more servers: enlarge the window, or `steelyard status`",
        "",
        "LOAD BALANCER  RUNG       SERVES  REPORT s",
        "edge-1         fresh      3.118        0.4",
        "edge-2         no report  -              -",
        "degraded: publishing: away",
        "degraded: state: away",
        "changed: server-1: state up -> drain",
        "q or ctrl-C ends",
    ]
    assert len(live_table.screen(document, None, ["a", "b", "c"], Look(width=80), 2)) == 2
    # Asked for, and not streamed: the overview has the controller's faults.
    leader = api_documents.ControllerFaults(id="a", degraded=["state: away"])
    asked = document.model_copy(update={"controller": leader})
    assert "degraded: state: away" in live_table.screen(asked, None, [], Look(width=80), 24)
    assert live_table.screen(None, None, [], Look(width=80), 24) == [
        "waiting for the first tick",
        "q or ctrl-C ends",
    ]


def test_a_line_for_a_pipe() -> None:
    document = of(overview(live(), unknown("server-2", state="drain", share=0.0), alert=True))
    assert live_table.line(document) == "web 3.118 alert: server-1 267 26.7%, server-2 267 0.0% drain"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (float("inf"), "-"),
        (0.0, "0"),
        (0.004, "0.004"),
        (0.62, "0.62"),
        (9.999, "10.0"),
        (42.25, "42.2"),
        (812.4, "812"),
    ],
)
def test_figures_have_the_digits_that_tell_something(value: float | None, shown: str) -> None:
    assert numbers.figure(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.9, "0 s"), (61, "1 min 1 s"), (3600, "1 h"), (7512, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_spans_have_two_units(seconds: float, shown: str) -> None:
    assert numbers.span(seconds) == shown


def test_a_bar_shows_even_the_smallest_share() -> None:
    assert numbers.bar(0.0, 8, ascii_only=False) == ""
    assert numbers.bar(1e-9, 8, ascii_only=False) == "▏"
    assert numbers.bar(0.5, 8, ascii_only=False) == "████"
    assert numbers.bar(7.0, 8, ascii_only=False) == "█" * 8
    assert numbers.bar(1e-9, 8, ascii_only=True) == "#"


def test_a_course_with_gaps_and_one_of_nothing() -> None:
    assert numbers.sparkline([None, 1.0, 0.0], 40, ascii_only=False) == " █▁"
    assert numbers.sparkline([0.0, 0.0], 40, ascii_only=True) == "__"
    assert numbers.sparkline([], 40, ascii_only=False) == ""
    assert len(numbers.sparkline([1.0] * 1000, 40, ascii_only=False)) == 40


def test_the_least_important_column_goes_first() -> None:
    columns: list[Column[tuple[str, str, str]]] = [
        Column("NAME", lambda row: row[0]),
        Column("X", lambda row: row[1], rank=2),
        Column("Y", lambda row: Field(row[2]), rank=1),
    ]
    rows = [("name", "12345", "67890")]
    assert table(columns, rows, Look(width=18)) == ["NAME  X      Y", "name  12345  67890"]
    assert table(columns, rows, Look(width=17)) == ["NAME  Y", "name  67890"]
    assert table(columns, rows, Look(width=10)) == ["NAME", "name"]
    assert table(columns, rows, Look(width=3)) == ["NAM", "nam"]
