"""The election with a clock and a store of the test's own: all orders of events, without any waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from steelyard_controller.faults import Faults
from steelyard_controller.leader.election import Election
from steelyard_controller.store.interface import Rejected, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore

LEASE_S = 3.0


@dataclass
class Table:
    """The contents of Redis, and the time."""

    now_s: float = 1000.0
    lease: Lease | None = None
    until_s: float = 0.0
    term: int | None = None
    name: str | None = None
    wiped: int = 0

    def held(self) -> Lease | None:
        return self.lease if self.lease is not None and self.now_s < self.until_s else None

    def wipe(self) -> None:
        self.lease = self.term = self.name = None
        self.wiped += 1


@dataclass
class Fake(MemoryStore):
    """One controller's way to the store, which can be cut for this controller alone or for all."""

    table: Table
    away: bool = False
    unheard: bool = False
    read_only: bool = False
    asked: list[str] = field(default_factory=list)
    volatile = False

    async def _go(self, what: str) -> None:
        self.asked.append(what)
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("cut off")

    async def leader(self) -> Lease | None:
        await self._go("leader")
        return self.table.held()

    async def acquire(  # type: ignore[override]
        self, draft: Lease, *, lease_s: float, above: int, patient: bool
    ) -> Lease | None:
        await self._go("acquire")
        table = self.table
        held = table.held()
        if held is not None:
            return held
        self._write()
        if table.name is None and patient:
            return None
        table.name = table.name or f"store-{table.wiped}"
        table.term = max(draft.term if table.term is None else table.term + 1, above + 1)
        table.lease = replace(draft, term=table.term, store=table.name)
        table.until_s = table.now_s + lease_s
        if self.unheard:
            raise Unavailable("the answer did not come")
        return table.lease

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        await self._go("renew")
        if self.table.held() != lease:
            return False
        self._write()
        self.table.until_s = self.table.now_s + lease_s
        return True

    def _write(self) -> None:
        if self.read_only:
            raise Rejected("You can't write against a read only replica.")

    async def release(self, lease: Lease) -> None:
        await self._go("release")
        if self.table.held() is not None and self.table.held() == lease:
            self.table.lease = None


def controller(name: str, table: Table) -> tuple[Election, Fake]:
    store = Fake(table)
    election = Election(
        store, holder=name, boot="1", url=f"http://{name}", lease_s=LEASE_S, clock=lambda: table.now_s,
        unix=lambda: 1_790_000_000 + table.now_s, faults=Faults(),
    )  # fmt: skip
    return election, store


def above(term: int) -> Callable[[], Awaitable[int]]:
    async def look() -> int:
        return term

    return look


def step(*them: Election, seen: int = 0) -> None:
    async def all_at_once() -> None:
        await asyncio.gather(*(each.step(above(seen)) for each in them))

    asyncio.run(all_at_once())


@pytest.fixture
def table() -> Table:
    return Table()


def test_one_leads_and_the_other_knows_who(table: Table) -> None:
    (a, _), (b, _) = controller("a", table), controller("b", table)
    step(a, b)
    leader, other = (a, b) if a.lease else (b, a)
    assert leader.certain
    assert leader.lease is not None
    assert other.lease is None
    assert other.seen is not None
    assert other.seen.holder == leader.lease.holder


def test_two_steps_at_once_do_not_take_the_lease_from_each_other(table: Table) -> None:
    a, store = controller("a", table)
    step(a, a, a)
    assert a.lease == table.held()
    assert store.asked == ["leader", "acquire", "renew", "renew"]


def test_a_lease_ends_here_no_later_than_in_the_store(table: Table) -> None:
    a, store = controller("a", table)
    step(a)
    store.away = True
    table.now_s += LEASE_S - 0.01
    step(a)
    assert a.certain
    table.now_s += 0.01
    assert not a.certain
    assert table.held() is None


def test_without_the_store_the_leader_goes_on_uncertain_and_others_do_not_begin(table: Table) -> None:
    (a, of_a), (b, of_b) = controller("a", table), controller("b", table)
    step(a)
    of_a.away = of_b.away = True
    for _ in range(20):
        table.now_s += 1
        step(a, b)
    assert a.lease is not None
    assert not a.certain
    assert b.lease is None
    of_a.away = of_b.away = False
    step(a)
    assert a.lease == table.held()
    assert a.certain


def test_a_store_that_takes_no_writes_leaves_the_leader_its_term(table: Table) -> None:
    (a, of_a), (b, of_b) = controller("a", table), controller("b", table)
    step(a)
    before = a.lease
    of_a.read_only = of_b.read_only = True
    for _ in range(20):
        table.now_s += 1
        step(a, b)
    assert table.held() is None
    assert a.lease == before
    assert not a.certain
    assert b.lease is None
    of_a.read_only = of_b.read_only = False
    step(a)
    assert a.certain
    assert before is not None
    assert a.lease is not None
    assert a.lease.term == before.term + 1


def test_a_store_that_takes_no_writes_tells_a_leader_who_leads_in_its_place(table: Table) -> None:
    (a, of_a), (b, _) = controller("a", table), controller("b", table)
    step(a)
    table.now_s += 2 * LEASE_S
    step(b)
    of_a.read_only = True
    step(a)
    assert a.lease is None
    assert a.seen == b.lease


def test_a_paused_leader_that_wakes_finds_that_another_one_leads(table: Table) -> None:
    (a, _), (b, _) = controller("a", table), controller("b", table)
    step(a)
    term = a.lease.term if a.lease else 0
    table.now_s += 2 * LEASE_S
    step(b)
    assert not a.certain
    assert a.is_due
    step(a)
    assert a.lease is None
    assert b.lease is not None
    assert b.lease.term == term + 1
    assert a.seen is not None
    assert a.seen.holder == "b"


def test_a_paused_leader_whom_nobody_replaced_gets_a_new_term(table: Table) -> None:
    a, _ = controller("a", table)
    step(a)
    before = a.lease
    table.now_s += 2 * LEASE_S
    step(a)
    assert a.lease is not None
    assert before is not None
    assert a.lease.term == before.term + 1


def test_a_lease_that_was_got_unheard_is_given_back_for_one_of_a_new_term(table: Table) -> None:
    a, store = controller("a", table)
    store.unheard = True
    step(a)
    held = table.held()
    assert a.lease is None
    assert held is not None
    store.unheard = False
    step(a)
    assert a.lease is not None
    assert a.lease.term == held.term + 1


def test_a_released_lease_is_free_at_once(table: Table) -> None:
    (a, _), (b, _) = controller("a", table), controller("b", table)
    step(a)
    asyncio.run(a.release())
    step(b)
    assert b.certain


def test_of_a_wiped_store_whoever_led_gets_the_lease_and_the_others_wait(table: Table) -> None:
    (a, _), (b, _) = controller("a", table), controller("b", table)
    step(a)
    step(b)
    before = a.lease
    table.wipe()
    step(b, seen=before.term if before else 0)
    assert b.lease is None
    step(a)
    assert before is not None
    assert a.lease is not None
    assert (a.lease.term > before.term, a.lease.store) == (True, "store-1")


def test_of_a_wiped_store_whose_leader_is_gone_another_one_leads_two_leases_later(table: Table) -> None:
    (a, _), (b, _) = controller("a", table), controller("b", table)
    step(a)
    step(b)
    table.wipe()
    step(b)
    table.now_s += 2 * LEASE_S - 0.1
    step(b)
    assert b.lease is None
    table.now_s += 0.2
    step(b)
    assert b.certain


def test_a_new_store_that_nobody_led_is_led_at_once(table: Table) -> None:
    a, _ = controller("a", table)
    step(a)
    assert a.certain


def test_terms_do_not_go_back_when_the_store_does(table: Table) -> None:
    a, _ = controller("a", table)
    step(a)
    before = a.lease
    assert before is not None
    # A restored older copy has an earlier term, and no lease.
    table.lease, table.term = None, before.term - 5
    step(a)
    assert a.lease is not None
    assert a.lease.term == before.term + 1


def test_a_term_is_above_every_table_that_is_published(table: Table) -> None:
    a, _ = controller("a", table)
    table.term, table.name = 7, "store"
    step(a, seen=41)
    assert a.lease is not None
    assert a.lease.term == 42


def test_whoever_could_not_begin_leaves_the_lease_to_others_for_a_while(table: Table) -> None:
    (a, _), (b, _) = controller("a", table), controller("b", table)
    step(a)
    a.drop("it could not begin", rest=True)
    step(a)
    assert a.lease is None
    assert table.held() is None
    step(b)
    assert b.certain
    table.now_s += 3 * LEASE_S
    step(a)
    assert a.certain


def test_memory_always_leads() -> None:
    a = Election(
        MemoryStore(), holder="a", boot="1", url="", lease_s=LEASE_S, clock=lambda: 1e9, unix=lambda: 1.0,
        faults=Faults(),
    )  # fmt: skip
    step(a)
    assert a.certain
    assert a.lease is not None
    assert a.lease.term == 1
