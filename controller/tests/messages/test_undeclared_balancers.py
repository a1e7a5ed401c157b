"""Undeclared load balancers: whose reports are read, and until when."""

from collections.abc import Iterable

from steelyard_controller.api import metrics
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.undeclared_balancers import FORGOTTEN_AFTER_S, MOST_READ
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.overview import overview
from steelyard_protocol import derived_keys, signature, wire

from ..examples import advance, report

SHARED = b"an example key, never a real one"
NOW_MS = 1_790_000_000_000
WEB = Declaration(upstream=Upstream(peers=[Peer(id="a", address="10.0.0.1:80", baseline=1)]))


class World:
    """An upstream whose load balancers report at each tick, and announce themselves until they are read."""

    def __init__(self, *, keys: Keyring = Keyring()) -> None:  # noqa: B008
        self.cycle = Cycle("web", WEB, tick_s=1.0, keys=keys)
        self.tick_s = 0

    def tick(self, *lbs: str, values: dict[str, bytes] | None = None, after_s: int = 1) -> Outcome:
        """Do a tick with reports of these, or with their `values`."""
        self.tick_s += after_s
        told = {lb: report(lb, seq=self.tick_s, a=(100, 0, 1, 5.0)) for lb in lbs} | (values or {})
        reporters: Iterable[str] = ()
        if self.cycle.outcome is not None:
            reporters = self.cycle.outcome.table.reporters or ()
        self.cycle.announce(set(told) - set(reporters))
        asked = self.cycle.keys()
        held = {key: told[key.rpartition(":")[2]] for key in asked if key.rpartition(":")[2] in told}
        outcome, self.lines = advance(
            self.cycle,
            held,
            now_s=float(self.tick_s),
            term=3,
            issued_at_ms=NOW_MS + 1000 * self.tick_s,
            addresses={},
        )
        self.cycle.outcome = outcome
        return outcome

    def signed(self, lb: str, key: bytes, *, sent_at_ms: int) -> dict[str, bytes]:
        """Return a report with a signature."""
        text = report(lb, seq=self.tick_s + 1, sent_at_ms=sent_at_ms, a=(100, 0, 1, 5.0))
        return {lb: signature.sign(key, text)}


def test_one_that_announces_itself_is_read_counted_and_named() -> None:
    world = World()
    world.tick("edge-1")
    assert world.tick("edge-1").snapshot.completed.tolist() == [100]
    world.tick("edge-1", "edge-2")
    assert world.cycle.balancer_changes == ["undeclared load balancer edge-2 reports and is read"]
    outcome = world.tick("edge-1", "edge-2")
    assert outcome.snapshot.completed.tolist() == [200]
    assert outcome.table.reporters == ("edge-1", "edge-2")
    shown = overview(outcome, WEB)["load_balancers"]
    assert {lb: each["declared"] for lb, each in shown.items()} == {"edge-1": True, "edge-2": False}
    assert world.cycle.load_balancers == ("edge-1",)


def test_one_that_is_declared_and_silent_for_a_minute_is_not_named_and_is_still_read() -> None:
    world = World()
    for _ in range(round(FORGOTTEN_AFTER_S) + 1):
        assert world.tick("edge-2").table.reporters in {("edge-1",), ("edge-1", "edge-2")}
    outcome = world.tick("edge-2")
    assert outcome.table.reporters == ("edge-2",)
    assert outcome.load_balancers == ("edge-1", "edge-2")
    # The next leader has it from the table, and keeps it for another minute.
    after = World()
    after.cycle.follow_table(outcome.table)
    assert after.tick("edge-2").table.reporters == ("edge-2",)
    for each in (world, after):
        each.tick("edge-1", "edge-2")
        outcome = each.tick("edge-1", "edge-2")
        assert outcome.table.reporters == ("edge-1", "edge-2")
        assert outcome.snapshot.completed.tolist() == [200]


def test_one_that_left_is_forgotten_after_a_minute_and_the_table_says_so() -> None:
    world = World()
    world.tick("edge-1")
    world.tick("edge-1", "edge-2")
    for _ in range(round(FORGOTTEN_AFTER_S)):
        outcome = world.tick("edge-1")
        assert outcome.table.reporters == ("edge-1", "edge-2")
    outcome = world.tick("edge-1")
    assert outcome.table.reporters == ("edge-1",)
    assert "edge-2" not in outcome.inbox.reports
    assert world.cycle.balancer_changes == ["undeclared load balancer edge-2 is no longer read"]
    assert wire.traffic_key("web", "edge-2") not in world.cycle.keys()  # noqa: SIM118


def test_one_that_is_declared_meanwhile_stays() -> None:
    world = World()
    world.tick("edge-1")
    world.tick("edge-1", "edge-2")
    named = WEB.upstream.model_copy(update={"load_balancers": ["edge-1", "edge-2"]})
    world.cycle.declaration = Declaration(upstream=named)
    outcome = world.tick("edge-1", "edge-2")
    assert (outcome.table.reporters, outcome.undeclared) == (("edge-1", "edge-2"), frozenset())
    assert outcome.snapshot.completed.tolist() == [200]


def test_one_without_the_key_of_its_name_is_not_read_and_the_log_says_so_once() -> None:
    keys = Keyring(shared=SHARED, derived="require")
    world, its = World(keys=keys), derived_keys.derive(SHARED, derived_keys.lb("edge-9"))
    world.tick("edge-1")
    said = []
    for lb in ("edge-2", "edge-3"):  # With another's key.
        outcome = world.tick(values=world.signed(lb, its, sent_at_ms=NOW_MS))
        said += world.lines
        assert outcome.table.reporters == ("edge-1",)
        assert [why.detail[:6] for why in outcome.inbox.refusals.values() if lb in why.detail] == [lb]
    assert len([line for line in said if "undeclared" in str(line)]) == 1
    outcome = world.tick(values=world.signed("edge-9", its, sent_at_ms=NOW_MS))
    assert outcome.table.reporters == ("edge-1", "edge-9")


def test_a_first_report_that_is_long_past_is_taken_for_a_recording() -> None:
    world = World(keys=Keyring(shared=SHARED))
    outcome = world.tick(values=world.signed("edge-2", SHARED, sent_at_ms=NOW_MS - 600_000))
    assert outcome.table.reporters == ("edge-1",)
    (refusal,) = outcome.inbox.refusals.values()
    assert refusal.reason == "replayed"
    assert [*outcome.inbox.alarms.values()] == [(refusal, outcome.now_s)]  # though messages count as older
    assert "set that clock, or declare it" in refusal.detail


def test_an_announcement_without_a_report_changes_nothing() -> None:
    world = World()
    world.tick("edge-1")
    world.cycle.announce({"edge-2"})
    outcome = world.tick("edge-1")
    assert (outcome.table.reporters, outcome.inbox.refusals) == (("edge-1",), {})


def test_there_are_so_many_and_no_more() -> None:
    world, names = World(), [f"edge-{n}" for n in range(1000, 1000 + MOST_READ + 2)]
    outcome = world.tick("edge-1", *names)
    assert len(outcome.undeclared) == MOST_READ
    assert "2 undeclared load balancers report beyond" in str(world.cycle.faults["load balancers"])
    world.tick("edge-1", *names)
    assert world.cycle.faults["load balancers"] is not None
    world.cycle.announce(())
    assert world.cycle.faults["load balancers"] is None


def test_the_next_leader_goes_on_with_those_in_the_table() -> None:
    before, after = World(), World()
    table = before.tick("edge-1", "edge-2").table
    after.cycle.follow_table(table)
    outcome = after.tick("edge-1", "edge-2")
    assert outcome.table.reporters == ("edge-1", "edge-2")
    assert set(outcome.inbox.reports) == {"edge-1", "edge-2"}


def test_no_alert_waits_for_one_that_nobody_declared() -> None:
    world = World()
    world.tick("edge-1", "edge-2")
    text = metrics.render(metrics.Source(views={"web": world.cycle}), now_s=1.0).decode()
    assert 'steelyard_lb_reporting{lb="edge-1",upstream="web"}' in text
    assert 'steelyard_lb_reporting{lb="edge-2"' not in text
    assert 'steelyard_report_age_seconds{lb="edge-2",upstream="web"}' in text
