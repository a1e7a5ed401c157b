"""Accepted runs of a sender: restarts, stepped clocks, twins, and replayed recordings."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.messages.inbox import Inbox, receive, refusal_changes, sender_clocks
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.received import ReadContext
from steelyard_protocol import replay_guard, signature

from ..examples import report, sample

KEY = b"k" * 32
T_MS = 1_790_000_000_000
SECOND_MS = 1_000
HOUR_MS = 3_600_000


@dataclass
class Receiver:
    """A controller that reads once a second; `sample` and `report` are the values that it reads."""

    key: bytes | None = KEY
    inbox: Inbox = field(default_factory=Inbox)
    now_s: float = 0.0
    unix_ms: int = T_MS

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.unix_ms += round(seconds * 1000)

    def sample(self, boot: str, seq: int, at_ms: int | None = None, interval_s: float = 1.0) -> str:
        """Read after a second; the sample is from that moment, unless `at_ms` is given."""
        self.wait(1)
        taken_at_ms = self.unix_ms if at_ms is None else at_ms
        text = sample(boot=boot, seq=seq, taken_at_ms=taken_at_ms, interval_s=interval_s)
        return self._look(samples={"a": text}, reports={})

    def report(self, boot: str, seq: int, at_ms: int) -> str:
        """Read after a second; the report was sent at `at_ms`, by the load balancer's clock."""
        self.wait(1)
        return self._look(samples={}, reports={"edge-1": report(boot=boot, seq=seq, sent_at_ms=at_ms)})

    def successor(self, *, remembers: bool = True) -> "Receiver":
        """Let another controller take over with the saved clocks."""
        kept = sender_clocks(self.inbox) if remembers else {}
        return Receiver(self.key, Inbox(remembered=kept), now_s=5_000.0, unix_ms=self.unix_ms)

    def _look(self, *, samples: dict[str, bytes], reports: dict[str, bytes]) -> str:
        key = self.key
        sealed = [
            {name: text if key is None else signature.sign(key, text) for name, text in values.items()}
            for values in (samples, reports)
        ]
        before = self.inbox
        self.inbox = receive(
            before,
            ReadContext("web", self.now_s, Keyring(shared=key), None if key is None else self.unix_ms),
            samples=sealed[0],
            reports=sealed[1],
        )
        if self.inbox.refusals:
            (refusal,) = self.inbox.refusals.values()
            assert (self.inbox.samples, self.inbox.reports) == (before.samples, before.reports)
            return refusal.reason
        new = (self.inbox.samples, self.inbox.reports) != (before.samples, before.reports)
        return "taken" if new else "known"


def _with_earlier_run(key: bytes | None = KEY) -> Receiver:
    """Return a receiver after three seconds of run b1 and three of its successor b2."""
    receiver = Receiver(key)
    for boot in ("b1", "b2"):
        for seq in range(1, 4):
            assert receiver.sample(boot, seq) == "taken"
    return receiver


# --- replayed recordings ----------------------------------------------------


def test_an_older_sample_of_the_same_run_is_refused_as_replayed() -> None:
    receiver = Receiver()
    assert receiver.sample("b1", 500) == "taken"
    assert receiver.sample("b1", 496) == "replayed"
    assert receiver.sample("b1", 1, at_ms=T_MS) == "replayed"
    assert receiver.sample("b1", 501) == "taken"


def test_a_sample_that_was_overtaken_on_its_way_is_neither_taken_nor_an_alarm() -> None:
    receiver = Receiver()
    assert receiver.sample("b1", 500) == "taken"
    assert [receiver.sample("b1", seq) for seq in (500, 499, 497)] == ["known"] * 3


def test_a_sample_of_an_earlier_run_is_refused_as_replayed() -> None:
    receiver = _with_earlier_run()
    assert receiver.sample("b1", 3, at_ms=T_MS + 3 * SECOND_MS) == "replayed"
    assert receiver.sample("b1", 1, at_ms=T_MS + SECOND_MS) == "replayed"


def test_a_sample_of_an_earlier_run_that_nobody_read_then_is_refused_as_well() -> None:
    receiver = _with_earlier_run()
    assert receiver.sample("b1", 9, at_ms=T_MS + 3 * SECOND_MS) == "replayed"


def test_a_sample_of_a_run_that_was_never_heard_is_refused_by_its_time() -> None:
    receiver = _with_earlier_run()
    receiver.wait(60)
    assert receiver.sample("b2", 4) == "taken"
    assert receiver.sample("long ago", 7, at_ms=T_MS - 30 * 24 * HOUR_MS) == "replayed"
    assert "2592067 s before" in receiver.inbox.refusals["sample of a"].detail


def test_a_recording_of_the_last_minute_can_pass_once_and_the_real_sender_is_back_soon() -> None:
    receiver = Receiver()
    receiver.wait(100)
    assert receiver.sample("b2", 1) == "taken"
    assert receiver.sample("unheard", 5, at_ms=receiver.unix_ms - 50 * SECOND_MS) == "taken"
    answers = [receiver.sample("b2", seq) for seq in range(2, 15)]
    assert answers == ["replayed"] * 3 + ["taken"] * 10
    assert receiver.sample("unheard", 5, at_ms=receiver.unix_ms - 50 * SECOND_MS) == "replayed"
    assert receiver.sample("unheard", 6, at_ms=receiver.unix_ms - 50 * SECOND_MS) == "replayed"


def test_a_report_of_an_earlier_run_is_refused_as_replayed() -> None:
    receiver = Receiver()
    for seq, boot in enumerate(("n1", "n1", "n2"), 1):
        assert receiver.report(boot, seq, T_MS + seq * SECOND_MS) == "taken"
    assert receiver.report("n1", 2, T_MS + 2 * SECOND_MS) == "replayed"
    assert receiver.report("n1", 9, T_MS + 2 * SECOND_MS) == "replayed"
    receiver.wait(61)
    assert receiver.report("n0", 9, T_MS - HOUR_MS) == "replayed"
    assert receiver.report("n2", 4, receiver.unix_ms) == "taken"


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.integers(-120, 0)), min_size=1, max_size=30
    )
)
def test_no_message_is_ever_taken_twice(arriving: list[tuple[str, int, int]]) -> None:
    receiver = Receiver()
    taken = []
    for boot, seq, age_s in arriving:
        if receiver.sample(boot, seq, at_ms=receiver.unix_ms + age_s * SECOND_MS) == "taken":
            taken.append((boot, seq))
    assert len(taken) == len(set(taken))


def test_runs_beyond_the_last_ones_are_known_by_their_time_only() -> None:
    receiver = Receiver()
    for n in range(replay_guard.RUNS_KEPT + 3):
        assert receiver.sample(f"run-{n}", 1) == "taken"
    assert len(receiver.inbox.samples["a"].ended) == replay_guard.RUNS_KEPT
    receiver.wait(replay_guard.LENIENCE_MS / 1000)
    assert receiver.sample("the next", 1) == "taken"
    assert receiver.sample("run-0", 1, at_ms=T_MS + SECOND_MS) == "replayed"


# --- restarts and clocks ---------------------------------------------------


def test_a_restarted_agent_is_believed_at_once() -> None:
    _with_earlier_run()


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, -400 * 24 * HOUR_MS])
def test_a_clock_that_is_stepped_within_a_run_costs_nothing_and_neither_does_a_restart_after_it(
    step_ms: int,
) -> None:
    receiver = _with_earlier_run()
    for boot, seq in (("b2", 4), ("b2", 5), ("b3", 1), ("b3", 2)):
        assert receiver.sample(boot, seq, at_ms=receiver.unix_ms + SECOND_MS + step_ms) == "taken"


def test_a_clock_that_was_ahead_may_be_set_right_between_two_runs() -> None:
    receiver = Receiver()
    assert receiver.sample("b1", 1, at_ms=receiver.unix_ms + HOUR_MS) == "taken"
    assert receiver.sample("b2", 1) == "taken"
    assert receiver.sample("b1", 1, at_ms=receiver.unix_ms + HOUR_MS) == "replayed"


def test_a_clock_set_back_between_two_runs_is_refused_with_the_remedy_until_it_is_set_right() -> None:
    receiver = _with_earlier_run()
    receiver.wait(100)
    assert receiver.sample("b3", 1, at_ms=receiver.unix_ms - HOUR_MS) == "replayed"
    assert "that clock was set back: set it right" in receiver.inbox.refusals["sample of a"].detail
    assert receiver.sample("b3", 2) == "taken"


def test_a_sender_whose_clock_is_far_behind_is_believed_for_as_long_as_it_runs_and_restarts() -> None:
    receiver = Receiver()
    for boot in ("b1", "b2", "b3"):
        for seq in range(1, 4):
            assert receiver.sample(boot, seq, at_ms=int(receiver.now_s) * SECOND_MS) == "taken"


def test_a_controller_whose_own_clock_is_wrong_refuses_no_restart() -> None:
    for wrong_ms in (-400 * 24 * HOUR_MS, 400 * 24 * HOUR_MS):
        receiver = Receiver(unix_ms=T_MS + wrong_ms)
        for n, (boot, seq) in enumerate([("b1", 1), ("b1", 2), ("b2", 1)]):
            assert receiver.sample(boot, seq, at_ms=T_MS + n * SECOND_MS) == "taken"


def test_without_a_key_no_clock_is_looked_at() -> None:
    receiver = _with_earlier_run(key=None)
    receiver.wait(100)
    assert receiver.sample("b3", 1, at_ms=0) == "taken"


# --- two agents of one name ------------------------------------------------


@pytest.mark.parametrize("key", [KEY, None], ids=["with a key", "without a key"])
def test_of_two_agents_with_one_name_the_later_is_believed_and_the_other_is_told(key: bytes | None) -> None:
    receiver = Receiver(key)
    assert receiver.sample("b1", 1) == "taken"
    assert receiver.sample("b2", 1) == "taken"
    answers = [receiver.sample(boot, seq) for seq in range(2, 20) for boot in ("b1", "b2")]
    assert answers == ["replayed", "taken"] * 18
    receiver.sample("b1", 20)
    detail = receiver.inbox.refusals["sample of a"].detail
    assert detail.startswith("it is of the run b1, which the run b2 has replaced")
    assert "two programs share this name: give each its own" in detail


def test_two_agents_that_take_turns_are_one_line_in_the_log_and_one_at_the_end() -> None:
    receiver, lines = Receiver(), []
    receiver.sample("b1", 1)
    for seq in range(1, 40):
        before = receiver.inbox
        receiver.sample("b1" if seq % 3 == 0 and seq < 20 else "b2", seq)
        lines += refusal_changes(before, receiver.inbox)
    assert [str(line).partition(":")[0] for line in lines] == [
        "sample of a refused (replayed)",
        "sample of a is no longer refused",
    ]


def test_when_the_later_of_two_falls_silent_the_earlier_is_believed_again() -> None:
    receiver = Receiver()
    assert receiver.sample("b1", 1) == "taken"
    assert receiver.sample("b2", 1) == "taken"
    answers = [receiver.sample("b1", seq) for seq in range(2, 14)]
    assert answers == ["replayed"] * 3 + ["taken"] * 9
    assert receiver.sample("b2", 1) == "replayed"


def test_it_takes_longer_if_its_message_is_older_than_the_last_accepted_one() -> None:
    receiver = Receiver()
    assert receiver.sample("b1", 1) == "taken"
    assert receiver.sample("b2", 1) == "taken"
    at_ms = receiver.unix_ms
    answers = [receiver.sample("b1", seq, at_ms=at_ms) for seq in range(2, 14)]
    assert answers == ["replayed"] * 10 + ["taken"] * 2


def test_a_slow_agent_is_not_silent_between_two_of_its_samples() -> None:
    receiver = Receiver()
    assert receiver.sample("b1", 1) == "taken"
    assert receiver.sample("b2", 1, interval_s=30.0) == "taken"
    receiver.wait(88)
    assert receiver.sample("b1", 2) == "replayed"
    receiver.wait(1)
    assert receiver.sample("b1", 3) == "taken"


# --- a successor's knowledge ------------------------------------------------


def test_a_controller_that_takes_over_refuses_what_is_older_than_what_was_heard() -> None:
    receiver = _with_earlier_run()
    receiver.wait(100)
    receiver.sample("b2", 4)
    successor = receiver.successor()
    assert successor.sample("b1", 3, at_ms=T_MS + 3 * SECOND_MS) == "replayed"
    assert successor.sample("b2", 5) == "taken"
    assert not any(successor.inbox.remembered.values())
    assert successor.sample("b1", 3, at_ms=T_MS + 3 * SECOND_MS) == "replayed"


def test_what_is_remembered_is_handed_on_though_nothing_was_heard_meanwhile() -> None:
    receiver = _with_earlier_run()
    receiver.wait(100)
    between = receiver.successor()
    assert between.sample("b1", 1, at_ms=T_MS) == "replayed"
    assert sender_clocks(between.inbox) == sender_clocks(receiver.inbox)
    assert between.successor().sample("b1", 1, at_ms=T_MS) == "replayed"


def test_a_controller_that_remembers_nothing_believes_the_first_and_then_only_what_is_later() -> None:
    receiver = _with_earlier_run()
    receiver.wait(100)
    successor = receiver.successor(remembers=False)
    assert successor.sample("b1", 3, at_ms=T_MS + 3 * SECOND_MS) == "taken"
    assert successor.sample("b2", 4) == "taken"
    assert successor.sample("b1", 3, at_ms=T_MS + 3 * SECOND_MS) == "replayed"


def test_what_is_not_configured_any_more_is_forgotten() -> None:
    inbox = Inbox(remembered={"samples": {"a": 5, "gone": 6}})
    inbox = receive(inbox, ReadContext("web", 1.0), samples={"a": None}, reports={})
    assert sender_clocks(inbox) == {"samples": {"a": 5}}
