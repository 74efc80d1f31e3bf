"""The line of checkpoints that wait. Flink: CheckpointRequestDeciderTest."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.checkpoint.checkpoint_requests import NOTHING, CheckpointRequest, CheckpointRequests, Choice

SAVEPOINT = SnapshotKind.SAVEPOINT


def request(number, timestamp_ms=0, **fields):
    return CheckpointRequest(number, timestamp_ms, **fields)


def line(*requests, **fields):
    found = CheckpointRequests(**{"max_concurrent": 1, "min_pause_ms": 0} | fields)
    for each in requests:
        assert found.add(each) is None
    return found


def test_savepoints_then_forced_then_asked_for_then_the_clocks_and_the_older_first():
    periodic = request(1, 1, is_periodic=True)
    asked = request(2, 2)
    forced = request(3, 3, is_forced=True)
    saved = request(4, 4, kind=SAVEPOINT)
    saved_forced = request(5, 5, kind=SAVEPOINT, is_forced=True)
    older = request(6, 1)
    waiting = line(periodic, asked, forced, saved, saved_forced, older).waiting
    assert [each.number for each in waiting] == [5, 4, 3, 6, 2, 1]


def test_none_begins_while_enough_are_under_way_but_a_forced_one():
    assert line(request(1)).choose(0, pending_count=1) is NOTHING
    assert line(request(1), max_concurrent=2).choose(0, pending_count=1).begin.number == 1
    assert line(request(1, kind=SAVEPOINT)).choose(0, pending_count=1) is NOTHING
    assert line(request(1, kind=SAVEPOINT, is_forced=True)).choose(0, pending_count=5).begin.number == 1


def test_what_the_clock_asks_for_too_early_is_dropped_and_it_is_told_when_to_ask_again():
    periodic = request(1, is_periodic=True)
    found = line(periodic, min_pause_ms=100)
    assert found.choose(130, pending_count=0, last_completion_ms=50) == Choice(too_early=periodic, ask_again_in_ms=20)
    assert len(found) == 0
    assert line(periodic, min_pause_ms=100).choose(150, pending_count=0, last_completion_ms=50).begin is periodic


def test_before_the_first_checkpoint_there_is_no_pause_whatever_the_clock_shows():
    periodic = request(1, is_periodic=True)
    assert line(periodic, min_pause_ms=3_600_000).choose(0, pending_count=0).begin is periodic


def test_the_pause_is_nothing_to_what_somebody_asks_for():
    for asked in (request(1), request(1, kind=SAVEPOINT), request(1, is_periodic=True, is_forced=True)):
        assert line(asked, min_pause_ms=100).choose(60, pending_count=0, last_completion_ms=50).begin is asked


def test_the_clock_waits_in_the_line_once():
    found = line(request(1, 1, is_periodic=True))
    second = request(2, 2, is_periodic=True)
    assert found.add(second) is second


def test_a_full_line_drops_what_the_clock_asked_for_or_whoever_comes():
    periodic, saved = request(1, is_periodic=True), request(2, kind=SAVEPOINT)
    found = line(periodic, saved, limit=2)
    third = request(3)
    assert found.add(third) is periodic
    fourth = request(4, kind=SAVEPOINT, is_forced=True)
    assert found.add(fourth) is fourth, "all that wait were asked for: whoever comes has to go"


class AnyOrder(RuleBasedStateMachine):
    """Whatever is asked for, in whatever order: nothing is lost, nothing overtakes what stands before it."""

    def __init__(self):
        super().__init__()
        self.found = CheckpointRequests(max_concurrent=2, min_pause_ms=50, limit=5)
        self.model = []
        self.number = self.now_ms = self.pending = 0
        self.last_ms = -1_000

    @rule(
        kind=st.sampled_from([SnapshotKind.CHECKPOINT, SAVEPOINT]), is_periodic=st.booleans(), is_forced=st.booleans()
    )
    def ask(self, kind, is_periodic, is_forced):
        self.number += 1
        number = self.number if kind is SAVEPOINT else None
        asked = request(
            self.number, self.now_ms, kind=kind, is_periodic=is_periodic, is_forced=is_forced, user_request=number
        )
        had_periodic = any(each.is_periodic for each in self.model)
        dropped = self.found.add(asked)
        self.model.append(asked)
        if dropped is not None:
            self.model.remove(dropped)
            assert dropped.is_periodic or len(self.model) == 5
            assert dropped is asked or dropped.rank > asked.rank
        assert not (is_periodic and had_periodic) or dropped is asked

    @rule(span_ms=st.integers(1, 60))
    def wait(self, span_ms):
        self.now_ms += span_ms

    @rule()
    def complete(self):
        if self.pending:
            self.pending -= 1
            self.last_ms = self.now_ms

    @rule()
    def choose(self):
        choice = self.found.choose(self.now_ms, pending_count=self.pending, last_completion_ms=self.last_ms)
        head = min(self.model, key=lambda each: each.rank, default=None)
        taken = choice.begin or choice.too_early
        if taken is not None:
            assert taken is head
            self.model.remove(taken)
        if choice.begin is not None:
            assert self.pending < 2 or choice.begin.is_forced
            is_early = self.now_ms < self.last_ms + 50
            assert not is_early or choice.begin.is_forced or not choice.begin.is_periodic
            self.pending += 1
        elif choice.too_early is not None:
            assert self.now_ms + choice.ask_again_in_ms == self.last_ms + 50
        else:
            assert head is None or (self.pending >= 2 and not head.is_forced)

    @rule()
    def only_savepoints(self):
        self.found.drop_checkpoints()
        self.model = [each for each in self.model if each.user_request is not None]

    @invariant()
    def all_wait_in_their_order(self):
        assert self.found.waiting == sorted(self.model, key=lambda each: each.rank)
        assert len(self.found) <= 5


TestAnyOrder = AnyOrder.TestCase
