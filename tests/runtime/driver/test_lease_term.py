"""When a lease counts as over: not renewed for as long as it lasts, and not only because its program stood still."""

from flinkbuf.runtime.driver.lease_term import LeaseTerm


def over_at(renewed_ms, looks_ms):
    term = LeaseTerm(timeout_ms=9_000, now_ms=0)
    return next((now_ms for now_ms in looks_ms if term.is_over(renewed_ms, now_ms)), None)


def test_a_lease_is_over_when_it_was_not_renewed_for_the_timeout():
    assert over_at(500, [3_000, 6_000, 9_000, 9_499, 9_500]) == 9_500


def test_a_lease_that_is_renewed_is_never_over():
    term = LeaseTerm(timeout_ms=9_000, now_ms=0)
    assert not any(term.is_over(renewed_ms=now_ms - 4_000, now_ms=now_ms) for now_ms in range(0, 90_000, 3_000))


def test_a_program_that_stood_still_may_try_once_more():
    assert over_at(2_000, [3_000, 60_000, 61_000, 62_999, 63_000]) == 63_000


def test_a_program_that_stood_still_and_renews_its_lease_keeps_it():
    term = LeaseTerm(timeout_ms=9_000, now_ms=0)
    assert not term.is_over(2_000, 60_000)
    assert not term.is_over(60_010, 63_000) and not term.is_over(60_010, 66_000)


def test_one_that_stands_still_between_two_renewals_is_always_spared():
    """For any time: what it was to renew meanwhile is not held against it."""
    for still_ms in range(1, 30_000, 250):
        term = LeaseTerm(timeout_ms=9_000, now_ms=0)
        assert not term.is_over(renewed_ms=0, now_ms=2_999)
        assert not term.is_over(renewed_ms=0, now_ms=2_999 + still_ms) or still_ms < 6_000, still_ms


def test_a_lease_that_is_over_when_its_term_begins_is_not_spared():
    assert LeaseTerm(timeout_ms=9_000, now_ms=50_000).is_over(renewed_ms=0, now_ms=50_000)


def test_the_next_look_is_when_it_may_be_over_or_before():
    term = LeaseTerm(timeout_ms=9_000, now_ms=0)
    term.is_over(0, 8_000)
    assert term.next_look_ms(0) == 9_000 + 2_000  # it stood still until 8 s, and is spared until 11 s
    assert term.next_look_ms(8_000) == 11_000


def test_the_shortest_lease_has_a_pause():
    assert LeaseTerm(timeout_ms=1, now_ms=0).pause_ms == 1
