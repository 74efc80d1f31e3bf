"""Who has been silent for too long. Flink: HeartbeatManagerTest."""

from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.runtime.scheduler.heartbeat import HeartbeatMonitor


def test_nobody_is_watched():
    monitor = HeartbeatMonitor(10, 25)
    assert (monitor.next_deadline_ms, monitor.ask(1000), monitor.silent(1000)) == (None, [], [])


def test_whoever_is_heard_lives_on():
    monitor = HeartbeatMonitor(10, 25)
    monitor.watch("a", 0)
    for now_ms in range(10, 500, 10):
        assert monitor.next_deadline_ms == now_ms
        assert monitor.ask(now_ms) == ["a"]
        monitor.heard("a", now_ms + 1)
        assert monitor.silent(now_ms + 1) == []


def test_whoever_is_silent_is_found_at_the_moment_of_the_timeout():
    monitor = HeartbeatMonitor(10, 25)
    monitor.watch("a", 0)
    monitor.watch("b", 3)
    monitor.ask(10)
    monitor.heard("a", 11)
    monitor.ask(20)
    assert monitor.next_deadline_ms == 28
    assert (monitor.silent(27), monitor.silent(28)) == ([], ["b"])
    monitor.forget("b")
    assert monitor.next_deadline_ms == 30


def test_the_trusted_are_asked_but_never_missed():
    monitor = HeartbeatMonitor(10, 25)
    monitor.watch("program", 0, may_be_silent=True)
    assert [monitor.ask(now_ms) for now_ms in (10, 20, 30, 40)] == [["program"]] * 4
    monitor.heard("program", 41)
    assert monitor.silent(10_000) == []
    monitor.forget("program")
    assert monitor.next_deadline_ms is None


def test_time_in_which_we_stood_still_counts_against_nobody():
    """A function that holds the interpreter's lock, a laptop that slept: answers wait in our own inbox."""
    monitor = HeartbeatMonitor(10, 25)
    monitor.watch("a", 0)
    monitor.ask(10)
    monitor.heard("a", 11)
    assert monitor.ask(500) == ["a"]
    assert monitor.silent(500) == []
    assert monitor.ask(510) == ["a"]
    assert (monitor.silent(515), monitor.silent(516)) == ([], ["a"]), "it goes on where it stood"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), max_size=60))
def test_exactly_those_are_silent_that_were_not_heard(rows):
    monitor, heard, now_ms = HeartbeatMonitor(10, 30), dict.fromkeys("abc", 0), 0
    for target in "abc":
        monitor.watch(target, 0)
    for target, step_ms in rows:
        for _ in range(step_ms):
            now_ms += 1
            monitor.ask(now_ms)
        expected = {each for each, ms in heard.items() if now_ms - ms >= 30}
        assert set(monitor.silent(now_ms)) == expected
        assert monitor.next_deadline_ms <= min(heard.values()) + 30
        monitor.heard(target, now_ms)
        heard[target] = now_ms
