import pytest
from steelyard_controller.messages.inbox import Inbox, count_refused, receive, refusal_changes
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.received import ReadContext
from steelyard_protocol import sample_reader, signature
from steelyard_protocol.wire import Refused

from ..examples import report, sample


def _take(inbox: Inbox, now_s: float, **samples: bytes | None) -> Inbox:
    return receive(inbox, ReadContext("web", now_s), samples=samples, reports={})


def test_arrival_is_when_the_sequence_number_changed() -> None:
    first = _take(Inbox(), 10.0, a=sample(seq=1))
    again = _take(first, 11.0, a=sample(seq=1))
    newer = _take(again, 12.0, a=sample(seq=2))
    assert (again.samples["a"].arrived_s, newer.samples["a"].arrived_s) == (10.0, 12.0)


def test_an_older_sample_of_the_same_boot_is_not_taken() -> None:
    inbox = _take(_take(Inbox(), 1.0, a=sample(seq=5, cpu=0.5)), 2.0, a=sample(seq=4, cpu=0.9))
    assert inbox.samples["a"].message.seq == 5


def test_an_agent_that_restarted_counts_from_the_start_again() -> None:
    inbox = _take(_take(Inbox(), 1.0, a=sample(seq=500)), 2.0, a=sample(boot="b2", seq=0))
    assert inbox.samples["a"].message.boot == "b2"


def test_an_unreadable_sample_keeps_the_last_one_and_is_counted() -> None:
    good = _take(Inbox(), 1.0, a=sample(seq=1))
    for value in (b"garbage", b'{"v":3}', b'{"v":1,"upstream":NaN}', b"0" * 2_000_000):
        bad = _take(good, 2.0, a=value)
        assert bad.samples == good.samples
        assert sum(bad.refused.values()) == 1
    assert bad.refusals["sample of a"].reason == "too_large"


def test_one_malformed_sample_among_many_harms_no_other() -> None:
    good = {name: sample(name) for name in "abd"}
    inbox = _take(Inbox(), 1.0, **good, c=b'{"v":1')
    assert set(inbox.samples) == set("abd")
    assert list(inbox.refusals) == ["sample of c"]


def test_the_same_bytes_are_the_same_sample() -> None:
    value = sample(seq=1)
    first = _take(Inbox(), 1.0, a=value)
    again = _take(first, 2.0, a=bytes(bytearray(value)))
    assert again.samples.columns is first.samples.columns
    assert again.samples["a"].arrived_s == 1.0


def test_a_server_is_heard_until_it_is_silent_and_no_message_is_read_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = _take(
        _take(Inbox(), 1.0, a=sample("a"), b=sample("b"), c=None), 2.0, a=None, b=sample("b", seq=2)
    )
    monkeypatch.setattr(sample_reader, "decode", lambda _: 1 / 0)
    heard = [inbox.samples.heard(since_s=0.0, now_s=now_s, tick_s=1.0) for now_s in (2.0, 4.0, 5.0, 5.1)]
    assert heard == [{"a", "b"}, {"a", "b"}, {"b"}, set()]
    assert inbox.samples.heard(since_s=1.0, now_s=2.0, tick_s=1.0) == {"b"}


def test_a_sample_keeps_its_place_when_the_servers_change() -> None:
    first = _take(Inbox(), 1.0, a=sample("a", cpu=0.1), b=sample("b", cpu=0.2))
    later = _take(first, 2.0, c=sample("c", cpu=0.3), b=None)
    assert {peer: each.message.utilization[0] for peer, each in later.samples.items()} == {"c": 0.3, "b": 0.2}
    assert later.samples["b"] == first.samples["b"]


def test_a_refusal_is_told_once_and_its_end_too() -> None:
    good = _take(Inbox(), 1.0, a=sample(seq=1))
    bad = _take(good, 2.0, a=b"garbage")
    still = _take(bad, 3.0, a=b"garbage")
    other = _take(still, 4.0, a=b'{"v":3}')
    healed = _take(other, 5.0, a=sample(seq=2))
    assert [
        len(refusal_changes(x, y)) for x, y in [(good, bad), (bad, still), (still, other), (other, healed)]
    ] == [
        1,
        0,
        1,
        1,
    ]
    assert healed.refused == {"not_json": 2, "version": 1}


def test_a_sample_under_another_peers_key_is_refused() -> None:
    inbox = _take(Inbox(), 1.0, a=sample("b"))
    assert inbox.samples == {}
    assert inbox.refusals["sample of a"].reason == "name"


def test_a_peer_that_is_not_configured_any_more_is_forgotten() -> None:
    inbox = _take(_take(Inbox(), 1.0, a=sample("a"), b=sample("b")), 2.0, b=None)
    assert set(inbox.samples) == {"b"}


def test_reports_are_held_by_load_balancer() -> None:
    inbox = receive(
        Inbox(),
        ReadContext("web", 1.0),
        samples={},
        reports={"edge-1": report(a=(5, 0, 0, 1.0)), "edge-2": None},
    )
    assert set(inbox.reports) == {"edge-1"}


KEY = b"k" * 32


def _signed(inbox: Inbox, now_s: float, sample_of_a: bytes, report_of_edge: bytes) -> Inbox:
    return receive(
        inbox,
        ReadContext("web", now_s, Keyring(shared=KEY)),
        samples={"a": sample_of_a},
        reports={"edge-1": report_of_edge},
    )


def test_with_a_key_signed_values_are_taken() -> None:
    inbox = _signed(Inbox(), 1.0, signature.sign(KEY, sample()), signature.sign(KEY, report()))
    assert (set(inbox.samples), set(inbox.reports), inbox.refused) == ({"a"}, {"edge-1"}, {})


def test_with_a_key_what_is_not_signed_with_it_changes_nothing_and_is_counted() -> None:
    good = _signed(Inbox(), 1.0, signature.sign(KEY, sample()), signature.sign(KEY, report()))
    forged = _signed(good, 2.0, sample(seq=2, cpu=0.9), report(seq=2, a=(0, 99, 0, 9.0)))
    forged = _signed(forged, 3.0, signature.sign(b"x" * 32, sample(seq=2)), KEY + report(seq=2))
    assert (forged.samples, forged.reports) == (good.samples, good.reports)
    assert forged.refused == {"unsigned": 3, "signature": 1}
    assert forged.refusals["sample of a"].reason == "signature"


def test_a_signed_message_at_another_key_is_refused() -> None:
    inbox = _signed(Inbox(), 1.0, signature.sign(KEY, sample("b")), signature.sign(KEY, report("edge-2")))
    assert (dict(inbox.samples), dict(inbox.reports), inbox.refused) == ({}, {}, {"name": 2})


def test_an_older_signed_message_that_is_put_back_is_not_taken() -> None:
    old = signature.sign(KEY, sample(seq=1)), signature.sign(KEY, report(seq=1))
    new = signature.sign(KEY, sample(seq=2)), signature.sign(KEY, report(seq=2))
    held = _signed(_signed(Inbox(), 1.0, *old), 2.0, *new)
    again = _signed(held, 3.0, *old)
    assert (again.samples, again.reports) == (held.samples, held.reports)


def test_without_a_key_a_signed_value_is_refused_with_the_remedy() -> None:
    inbox = _take(Inbox(), 1.0, a=signature.sign(KEY, sample()))
    assert inbox.refused == {"signed": 1}
    assert inbox.refusals["sample of a"].detail == "it is signed, and no key is set here: set it"


def test_what_is_refused_elsewhere_is_counted_with_the_rest() -> None:
    inbox = count_refused(_take(Inbox(), 1.0, a=b"garbage"), Refused("unsigned", "it is not signed"))
    assert inbox.refused == {"not_json": 1, "unsigned": 1}
    assert set(inbox.refusals) == {"sample of a"}
