import logging

import pytest
from steelyard_controller.faults import Faults


def test_a_fault_is_said_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    faults = Faults()
    for fault in ("refused", "timed out", "timed out"):
        faults.note("publishing", fault)
    assert faults.lines() == ("publishing: timed out",)
    for _ in range(2):
        faults.note("publishing", None)
    assert faults.lines() == ()
    assert caplog.messages == ["publishing: refused; the loop goes on", "publishing works again"]


def test_what_always_worked_is_not_said_to_work_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Faults().note("state", None)
    assert caplog.messages == []
