"""Faults of the upstreams: an own one stays with its upstream, one of many upstreams is told once."""

import logging

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.fault_causes import MANY, Fault, told_once
from steelyard_controller.faults import Faults
from steelyard_controller.messages.inbox import RefusalChange
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.faults_by_upstream import UpstreamFaults
from steelyard_protocol.wire import Refused

from ..examples import advance

NAMES = [f"up-{number}" for number in range(MANY)]
FULL = "10.0.0.5:11211: SERVER_ERROR out of memory"


def test_an_equal_fault_of_many_upstreams_is_one_line_of_the_controller_and_one_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    controller = Faults()
    faults = UpstreamFaults(controller)
    for name in NAMES:
        faults.of(name).note("publishing", FULL)
        faults.of(name).note("pairing", Fault("no report covers the samples", at=f"server-1 of {name}"))
    faults.of("up-3").note("keeping", "steelyard:1:history:up-3: not a stream")
    faults.settle()
    of_all = f"(10 upstreams: up-0, up-1, up-2 and {MANY - 3} more)"
    assert controller.lines() == (
        f"publishing: {FULL} {of_all}",
        f"pairing: no report covers the samples {of_all}",
    )
    assert faults.own("up-1") == ()
    assert faults.own("up-3") == ("keeping: steelyard:1:history:up-3: not a stream",)
    # The names that the line leaves out are in the log.
    all_named = f"(10 upstreams: {', '.join(NAMES)})"
    assert caplog.messages == [
        *(f"{line.replace(of_all, all_named)}; the loop goes on" for line in controller.lines()),
        "up-3: keeping: steelyard:1:history:up-3: not a stream; the loop goes on",
    ]
    caplog.clear()
    for name in NAMES:
        faults.of(name).note("publishing", None)
    faults.settle()
    assert caplog.messages == [f"publishing: mended {all_named}"]
    faults.stop()
    assert controller.lines() == ()


def test_fewer_upstreams_and_other_words_stay_with_their_upstreams(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    controller = Faults()
    faults = UpstreamFaults(controller)
    for number, name in enumerate(NAMES):
        faults.of(name).note("indicators", f"no server reports gpu-{number}")
        if number:
            faults.of(name).note("publishing", FULL)
    faults.settle()
    assert controller.lines() == ()
    assert faults.own("up-1") == ("indicators: no server reports gpu-1", f"publishing: {FULL}")
    assert len(caplog.messages) == 2 * MANY - 1
    assert "up-1: publishing: " in caplog.text
    faults.forget("up-0")
    assert faults.own("up-0") == ()


def test_names_with_one_cause_are_one_fault_of_their_upstream(caplog: pytest.LogCaptureFixture) -> None:
    controller = Faults()
    faults = UpstreamFaults(controller)
    for number in range(MANY):
        text = "cannot be resolved (no answer): the last address is kept"
        faults.of("web").note(f"name s{number}.test", Fault(text, at=f"10.0.0.{number}", kind="host names"))
    faults.settle()
    line = (
        "host names: cannot be resolved (no answer): the last address is kept"
        f" (10 host names: s0.test, s1.test, s2.test and {MANY - 3} more)"
    )
    assert (faults.own("web"), controller.lines()) == ((line,), ())
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("web: host names: cannot be resolved")
    assert f"s{MANY - 1}.test" in caplog.text
    # With another upstream's names, it is nobody's own.
    faults.of("db").note("name s0.test", Fault(text, kind="host names"))
    faults.settle()
    assert (faults.own("web"), faults.own("db"), controller.lines()) == ((), (), (line,))


def test_many_parts_of_the_controller_with_one_cause_are_told_once() -> None:
    unreachable = {
        f"Kubernetes pods in namespace n{number}": Fault("unreachable", kind="Kubernetes watches")
        for number in range(MANY)
    }
    own = {"Kubernetes Service a/b": Fault("no such port", kind="Kubernetes Services")}
    told = told_once(unreachable | own)
    assert {part: str(fault) for part, fault in told.items()} == {
        "Kubernetes watches": f"unreachable (10 Kubernetes watches: n0, n1, n2 and {MANY - 3} more)",
        "Kubernetes Service a/b": "no such port",
    }


def test_values_refused_for_one_cause_and_a_bug_of_all_ticks_are_one_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    controller = Faults()
    faults = UpstreamFaults(controller)
    declaration = Declaration(upstream=Upstream(peers=[Peer(id="a", address="10.0.0.1:80")]))
    for name in NAMES:
        cycle = Cycle(name, declaration, tick_s=1.0)
        outcome, _ = advance(cycle, {}, now_s=1.0, term=1, issued_at_ms=0, addresses={})
        # A key that differs: the details name each sender.
        refusal = RefusalChange("traffic report of edge-1", Refused("signature", f"make a key for {name}"))
        faults.note_messages(cycle, outcome, [refusal])
        faults.note_tick(cycle, ZeroDivisionError("division by zero"))
    faults.settle()
    assert [line for line in caplog.messages if "refused" in line] == [
        "up-0: traffic report of edge-1 refused (signature): make a key for up-0; the last good one is kept"
        f"; {MANY - 1} more like this"
    ]
    assert [record.message for record in caplog.records if record.exc_info] == ["up-0: a tick failed"]
    assert len(controller.lines()) == 1
    assert controller.lines()[0].startswith("tick: it fails (ZeroDivisionError: division by zero)")
    assert len(caplog.messages) == 3
