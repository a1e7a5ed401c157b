from steelyard_controller.intake import Intake, changes, take

from .examples import report, sample


def _take(intake: Intake, now_s: float, **samples: bytes | None) -> Intake:
    return take(intake, now_s, upstream="web", samples=samples, reports={})


def test_arrival_is_when_the_sequence_number_changed() -> None:
    first = _take(Intake(), 10.0, a=sample(seq=1))
    again = _take(first, 11.0, a=sample(seq=1))
    newer = _take(again, 12.0, a=sample(seq=2))
    assert (again.samples["a"].arrived_s, newer.samples["a"].arrived_s) == (10.0, 12.0)


def test_an_older_sample_of_the_same_boot_is_not_taken() -> None:
    intake = _take(_take(Intake(), 1.0, a=sample(seq=5, cpu=0.5)), 2.0, a=sample(seq=4, cpu=0.9))
    assert intake.samples["a"].message.seq == 5


def test_an_agent_that_restarted_counts_from_the_start_again() -> None:
    intake = _take(_take(Intake(), 1.0, a=sample(seq=500)), 2.0, a=sample(boot="b2", seq=0))
    assert intake.samples["a"].message.boot == "b2"


def test_an_unreadable_sample_keeps_the_last_one_and_is_counted() -> None:
    good = _take(Intake(), 1.0, a=sample(seq=1))
    for value in (b"garbage", b'{"v":2}', b'{"v":1,"upstream":NaN}', b"0" * 2_000_000):
        bad = _take(good, 2.0, a=value)
        assert bad.samples == good.samples
        assert sum(bad.refused.values()) == 1
    assert bad.refusals["sample of a"].reason == "too_large"


def test_a_refusal_is_told_once_and_its_end_too() -> None:
    good = _take(Intake(), 1.0, a=sample(seq=1))
    bad = _take(good, 2.0, a=b"garbage")
    still = _take(bad, 3.0, a=b"garbage")
    other = _take(still, 4.0, a=b'{"v":2}')
    healed = _take(other, 5.0, a=sample(seq=2))
    assert [len(changes(x, y)) for x, y in [(good, bad), (bad, still), (still, other), (other, healed)]] == [
        1,
        0,
        1,
        1,
    ]
    assert healed.refused == {"not_json": 2, "version": 1}


def test_a_sample_under_another_peers_key_is_refused() -> None:
    intake = _take(Intake(), 1.0, a=sample("b"))
    assert intake.samples == {}
    assert intake.refusals["sample of a"].reason == "name"


def test_a_peer_that_is_not_configured_any_more_is_forgotten() -> None:
    intake = _take(_take(Intake(), 1.0, a=sample("a"), b=sample("b")), 2.0, b=None)
    assert set(intake.samples) == {"b"}


def test_reports_are_held_by_load_balancer() -> None:
    intake = take(
        Intake(),
        1.0,
        upstream="web",
        samples={},
        reports={"edge-1": report(a=(5, 0, 0, 1.0)), "edge-2": None},
    )
    assert set(intake.reports) == {"edge-1"}
