"""Terms that a higher one in Memcached ends: a takeover ends one, a second control plane ends each."""

from steelyard_controller.leader.contested_terms import TAKEOVERS, WITHIN_S, ContestedTerms

WHY = "Memcached holds a table of term 7 (web)"


def test_a_takeover_is_no_fault() -> None:
    terms = ContestedTerms()
    assert terms.fault(0.0) is None
    for at_s in range(TAKEOVERS):
        terms.note(WHY, float(at_s))
    assert terms.fault(1.0) is None


def test_terms_that_end_again_and_again_are_a_fault_that_names_the_last_value_and_the_remedy() -> None:
    terms = ContestedTerms()
    for at_s in range(TAKEOVERS):
        terms.note("Memcached holds a list of upstreams of term 6", float(at_s))
    terms.note(WHY, 9.0)
    fault = terms.fault(10.0)
    assert fault is not None
    assert fault.startswith(f"{WHY}, which no controller of this Redis has written")
    assert "--installation" in fault
    assert terms.fault(WITHIN_S + 1) is None


def test_takeovers_with_long_times_between_them_are_no_fault() -> None:
    terms = ContestedTerms()
    for number in range(5):
        terms.note(WHY, number * WITHIN_S)
        assert terms.fault(number * WITHIN_S) is None
