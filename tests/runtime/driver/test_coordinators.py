"""The host of coordinators: events by attempt, resets, failures, and ends that keep nobody waiting."""

import threading
import time

import cloudpickle
import pytest
from support.programs.restarts import graph_of

from flinkbuf.runtime.driver import coordinators
from flinkbuf.runtime.driver.coordinators import CoordinatorHost
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.operator_events import ReaderRegistered, decode_event, encode_event
from flinkbuf.streaming.sinks.sink_factories import CallableSinkFactory
from flinkbuf.streaming.sources.source import Source, SplitEnumerator
from flinkbuf.streaming.sources.source_events import NoMoreSplits, SourceEvent, SplitRequested, SplitsAssigned
from flinkbuf.streaming.sources.source_factories import IterableSourceFactory, SourceOperatorFactory
from flinkbuf.streaming.time.clock import SystemClock

BROKEN = 13  # no state is given for this checkpoint


class Letters(Source):
    """Gives out a letter for each request; what is asked of it is noted."""

    def __init__(self, letters="abcdef"):
        self.letters = letters
        self.enumerators = []

    def create_reader(self, context):
        raise NotImplementedError

    def create_enumerator(self, context):
        self.enumerators.append(Giver(self, context))
        return self.enumerators[-1]

    def restore_enumerator(self, context, checkpoint):
        self.letters = checkpoint
        return self.create_enumerator(context)


class Giver(SplitEnumerator):
    def __init__(self, source, context):
        self.context = context
        self.left = list(source.letters)
        self.is_closed = False
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.threads = set()
        self.completed = []

    def start(self):
        pass

    def handle_split_request(self, subtask, host):
        self.threads.add(threading.current_thread().name)
        self.may_answer.wait(30)
        if host == "broken":
            raise OSError("no such directory")
        if self.left:
            self.context.assign_split(self.left.pop(0), subtask)
        else:
            self.context.signal_no_more_splits(subtask)

    def add_reader(self, subtask):
        pass

    def add_splits_back(self, splits, subtask):
        self.left = [*splits, *self.left]

    def handle_source_event(self, subtask, event):
        self.context.send_event_to_source_reader(subtask, event)

    def snapshot_state(self, checkpoint_id):
        if checkpoint_id == BROKEN:
            raise OSError("no such directory")
        return list(self.left)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.completed.append(checkpoint_id)

    def close(self):
        self.is_closed = True


class Around:
    """A host with one source of two subtasks; what it sends and the failures that it reports."""

    def __init__(self, source):
        self.source = source
        numbers = OperatorTransformation(
            "letters", None, [], factory=SourceOperatorFactory(source, None), is_source=True, parallelism=2
        )
        end = OperatorTransformation(
            "sink", None, [numbers], factory=CallableSinkFactory(print), is_sink=True, parallelism=1
        )
        graph = graph_of(end)
        vertex = graph.vertices[0]
        self.vertex_id, self.operator_id = vertex.id, vertex.chain.operators[0].operator_id
        self.sent, self.failures = [], []
        self.host = CoordinatorHost(graph, "ab" * 16, SystemClock(), self.send, self.failures.append)

    def send(self, attempt, operator_id, payload):
        assert operator_id == self.operator_id
        self.sent.append(((attempt.subtask_index, attempt.attempt_number), decode_event(payload)))

    def attempt(self, subtask=0, number=0):
        return AttemptId(self.vertex_id, subtask, number)

    def tell(self, event, subtask=0, number=0):
        self.host.tell(self.attempt(subtask, number), self.operator_id, encode_event(event))

    def register(self, subtask=0, number=0):
        self.tell(ReaderRegistered(), subtask, number)

    def settle(self):
        """Wait until all that was told before has been done."""
        done = threading.Event()
        self.host._works.put(done.set)
        assert done.wait(30)
        return self.sent


@pytest.fixture
def around():
    around = Around(Letters())
    around.host.start()
    yield around
    around.host.close()
    assert all(enumerator.is_closed for enumerator in around.source.enumerators)


def test_a_reader_is_given_what_it_asks_for(around):
    around.register()
    around.tell(SplitRequested())
    around.tell(SourceEvent("hello"))
    assert around.settle() == [((0, 0), SplitsAssigned(("a",))), ((0, 0), SourceEvent("hello"))]
    assert around.source.enumerators[0].threads == {"flinkbuf source coordinators"}


def test_an_attempt_that_has_ended_is_sent_nothing(around):
    around.register()
    around.host.gone(around.attempt())
    around.tell(SplitRequested())
    assert around.settle() == []
    assert around.failures == []


def test_a_subtask_that_begins_anew_gets_its_splits_again_and_only_those_of_it(around):
    for subtask in (0, 1):
        around.register(subtask)
        around.tell(SplitRequested(), subtask)
    around.host.gone(around.attempt())
    around.host.reset([(around.vertex_id, 0)], is_global=False)
    around.register(0, number=1)
    around.tell(SplitRequested(), 0, number=1)
    around.tell(SplitRequested(), 1)
    assert around.settle()[2:] == [((0, 1), SplitsAssigned(("a",))), ((1, 0), SplitsAssigned(("c",)))]
    assert len(around.source.enumerators) == 1


def test_nobody_hears_an_attempt_of_before(around):
    around.register()
    around.host.reset([(around.vertex_id, 0)], is_global=False)
    around.tell(SplitRequested(), 0, number=0)
    around.register(0, number=0)
    around.register(0, number=1)
    around.tell(SplitRequested(), 0, number=0)
    assert around.settle() == []
    around.host.gone(around.attempt(0, 0))  # it is not the one that is there
    around.tell(SplitRequested(), 0, number=1)
    assert around.settle() == [((0, 1), SplitsAssigned(("a",)))]


def test_a_job_that_begins_anew_has_enumerators_that_do(around):
    around.register()
    around.tell(SplitRequested())
    around.host.reset([(around.vertex_id, 0), (around.vertex_id, 1)], is_global=True)
    around.register(0, number=1)
    around.tell(SplitRequested(), 0, number=1)
    assert [event for _, event in around.settle()] == [SplitsAssigned(("a",)), SplitsAssigned(("a",))]
    first, second = around.source.enumerators
    assert first.is_closed and not second.is_closed


def test_an_enumerator_that_fails_is_told_once_and_asked_nothing_until_it_is_made_anew(around):
    around.register()
    around.tell(SplitRequested("broken"))
    around.tell(SplitRequested("broken"))
    around.tell(SplitRequested())
    assert around.settle() == []
    (failure,) = around.failures
    assert failure.type_name == "builtins.OSError" and failure.location["operator_name"] == "Source: letters"
    assert around.source.enumerators[0].is_closed
    around.host.reset([], is_global=True)
    around.register(0, number=1)
    around.tell(SplitRequested(), 0, number=1)
    assert around.settle() == [((0, 1), SplitsAssigned(("a",)))]


def test_an_enumerator_that_cannot_be_made_anew_is_a_failure(around):
    around.source.create_enumerator = lambda context: 1 // 0
    around.host.reset([], is_global=True)
    around.settle()
    assert [failure.type_name for failure in around.failures] == ["builtins.ZeroDivisionError"]
    around.register(0, number=1)
    assert around.settle() == []


def test_a_split_that_cannot_be_sent_fails_its_source(around):
    around.source.enumerators[0].left = [threading.Lock()]
    around.register()
    around.tell(SplitRequested())
    around.settle()
    assert [failure.type_name for failure in around.failures] == ["builtins.TypeError"]
    assert "of type lock, cannot be sent" in around.failures[0].message


def test_bytes_that_are_no_event_fail_their_source(around):
    around.host.tell(around.attempt(), around.operator_id, b"\xff")
    around.settle()
    assert [failure.type_name for failure in around.failures] == ["flinkbuf.errors.CorruptDataError"]


def test_an_event_for_nobody_is_dropped(around, caplog):
    around.host.tell(around.attempt(), "cd" * 16, encode_event(SplitRequested()))
    around.settle()
    assert around.failures == [] and "which has none, was dropped" in caplog.text


def test_when_there_is_nothing_left_a_reader_is_told(around):
    around.source.enumerators[0].left = []
    around.register()
    around.tell(SplitRequested())
    assert around.settle() == [((0, 0), NoMoreSplits())]


def test_an_enumerator_that_hangs_keeps_the_end_waiting_only_so_long(monkeypatch, caplog):
    monkeypatch.setattr(coordinators, "CLOSE_WAIT_S", 0.05)
    around = Around(Letters())
    around.host.start()
    enumerator = around.source.enumerators[0]
    enumerator.may_answer.clear()
    around.register()
    around.tell(SplitRequested())
    started = time.monotonic()
    around.host.close()
    assert time.monotonic() - started < 10
    assert (
        "has not returned in 0.05 s after the end of the job and was left; it is one of 'Source: letters'"
        in caplog.text
    )
    enumerator.may_answer.set()
    around.host._thread.join(30)
    assert enumerator.is_closed


def test_a_source_that_cannot_be_started_leaves_no_thread():
    around, before = Around(Letters()), threading.active_count()
    around.source.create_enumerator = lambda context: 1 // 0
    with pytest.raises(ZeroDivisionError) as caught:
        around.host.start()
    assert caught.value.operator_name == "Source: letters"
    around.host.close()
    assert threading.active_count() == before


# ---- checkpoints


def snapshot(around, checkpoint_id):
    taken = []
    around.host.snapshot(checkpoint_id, lambda states, failure: taken.append((states, failure)))
    around.settle()
    ((states, failure),) = taken
    return states, failure


def test_what_is_sent_after_the_state_was_taken_waits_until_readers_know_of_the_checkpoint(around):
    around.register()
    around.tell(SplitRequested())
    states, failure = snapshot(around, 1)
    assert failure is None
    assert cloudpickle.loads(states[around.operator_id]) == list("bcdef")
    around.tell(SplitRequested())
    around.tell(SplitRequested())
    assert around.settle() == [((0, 0), SplitsAssigned(("a",)))]
    around.host.let_go(1)
    assert around.sent[1:] == [((0, 0), SplitsAssigned(("b",))), ((0, 0), SplitsAssigned(("c",)))]


def test_what_was_given_before_a_newer_checkpoint_began_comes_to_its_reader_before_that(around):
    """The state that was taken for the newer one lacks it: it has to be in the reader's."""
    around.register()
    snapshot(around, 1)
    around.tell(SplitRequested())
    around.settle()
    states, _ = snapshot(around, 2)
    assert cloudpickle.loads(states[around.operator_id]) == list("bcdef")
    around.tell(SplitRequested())
    around.settle()
    around.host.let_go(1)
    assert around.sent == [((0, 0), SplitsAssigned(("a",)))]
    around.host.let_go(2)
    assert around.sent[1:] == [((0, 0), SplitsAssigned(("b",)))]


def test_what_waits_for_a_newer_checkpoint_is_not_let_go_by_an_older_one(around):
    around.register()
    snapshot(around, 1)
    snapshot(around, 2)
    around.tell(SplitRequested())
    around.host.let_go(1)
    assert around.settle() == []
    around.host.let_go(2)
    assert around.sent == [((0, 0), SplitsAssigned(("a",)))]


def test_a_state_that_cannot_be_taken_fails_the_checkpoint_and_nothing_else(around):
    around.register()
    states, failure = snapshot(around, BROKEN)
    assert states == {}
    assert (failure.message, failure.location["operator_name"]) == ("no such directory", "Source: letters")
    around.tell(SplitRequested())
    assert around.settle() == [((0, 0), SplitsAssigned(("a",)))]
    assert around.failures == []


def test_without_sources_there_is_no_state_to_wait_for():
    numbers = OperatorTransformation("numbers", None, [], factory=IterableSourceFactory([1]), is_source=True)
    end = OperatorTransformation("sink", None, [numbers], factory=CallableSinkFactory(print), is_sink=True)
    host = CoordinatorHost(graph_of(end), "ab" * 16, SystemClock(), print, print)
    host.start()
    taken = []
    host.snapshot(1, lambda states, failure: taken.append((states, failure)))
    assert taken == [({}, None)]
    host.close()


def test_enumerators_are_told_which_checkpoints_count(around):
    around.host.complete(7)
    around.settle()
    assert around.source.enumerators[0].completed == [7]


def test_a_subtask_that_goes_back_to_a_checkpoint_keeps_what_it_had_then(around):
    around.register()
    around.tell(SplitRequested())
    snapshot(around, 1)
    around.host.let_go(1)
    around.tell(SplitRequested())
    around.host.complete(1)
    around.host.reset([(around.vertex_id, 0)], False, 1)
    around.settle()
    assert around.source.enumerators[0].left == list("bcdef")


def test_enumerators_that_are_made_anew_go_on_from_their_state(around):
    states, _ = snapshot(around, 1)
    around.host.reset([], True, 1, {key: lambda data=data: data for key, data in states.items()})
    around.register(number=1)
    around.tell(SplitRequested(), number=1)
    around.settle()
    assert len(around.source.enumerators) == 2
    assert around.sent == [((0, 1), SplitsAssigned(("a",)))]


def test_a_state_that_cannot_be_read_is_a_failure(around):
    def read():
        raise OSError("storage is gone")

    around.host.reset([], True, 1, {around.operator_id: read})
    around.settle()
    assert [failure.message for failure in around.failures] == ["storage is gone"]


def test_a_job_that_begins_from_a_checkpoint_makes_no_enumerator_before_it_has_its_state():
    around = Around(Letters())
    around.host.start(is_restored=True)
    assert around.source.enumerators == []
    around.host.reset([], True, 1, {around.operator_id: lambda: cloudpickle.dumps(["z"])})
    around.settle()
    assert around.source.enumerators[0].left == ["z"]
    around.host.close()
