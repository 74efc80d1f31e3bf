"""The order of calls along a chain. Flink: OperatorChainTest, StreamOperatorWrapperTest, RegularOperatorChain."""

import random

import pytest
from support.worlds.stream_tasks import (
    SETTINGS,
    ListSink,
    chain_of,
    info,
    operator,
    plain_context,
)

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, MultipleInputOperator, StreamOperator
from flinkbuf._core.task.task_mailbox import TaskMailbox
from flinkbuf.streaming.chain.chain import OperatorChain
from flinkbuf.streaming.chain.mailbox import MailboxProcessor
from flinkbuf.streaming.chain.metrics import TaskTimes
from flinkbuf.streaming.chain.operator_config import ChainConfig, ChainedEdge, OperatorConfig
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.streaming.time.processing_time import TaskTimerService
from flinkbuf.testing import ManualClock

CALLS = [
    "initialize_state",
    "open",
    "end_input",
    "finish",
    "close",
    "prepare_snapshot_pre_barrier",
    "snapshot_state",
    "notify_checkpoint_complete",
    "notify_checkpoint_aborted",
]


class Recording(StreamOperator):
    """Writes down which calls it gets, and raises in those that a test names."""

    def __init__(self, name, calls, failing=()):
        self.name, self.calls, self.failing = name, calls, failing

    def process_element(self, value, timestamp):
        self.calls.append((self.name, value))
        self.output.collect(value, timestamp)


def recorder(method):
    def call(self, *arguments):
        self.calls.append((self.name, method, *arguments))
        if method in self.failing:
            raise LookupError(f"{self.name} {method}")
        return f"state of {self.name}"

    return call


for method in CALLS:
    setattr(Recording, method, recorder(method))


class Bench:
    def __init__(self, config):
        self.clock = ManualClock()
        self.mailbox = TaskMailbox(TaskBell())
        self.processor = MailboxProcessor(lambda controller: None, self.mailbox, TaskTimes(lambda: 0))
        self.timers = TaskTimerService(self.clock, self.mailbox)
        self.mailbox.set_timers(self.timers.post_due)

        def make_context(**surroundings):
            return plain_context(task=info(), settings=SETTINGS, clock=self.clock, **surroundings)

        self.chain = OperatorChain(
            info(), config, [], self.processor, self.timers, make_context, lambda: None, random.Random(1)
        )


def three(calls, failing=(), failing_names="abc"):
    bench = Bench(
        chain_of(
            *(
                operator(name, lambda name=name: Recording(name, calls, failing if name in failing_names else ()))
                for name in "abc"
            )
        )
    )
    bench.chain.make()
    return bench


def test_each_operator_is_initialized_and_opened_before_the_one_in_front_of_it():
    calls = []
    three(calls).chain.initialize_state_and_open(None)
    assert calls == [call for name in "cba" for call in ((name, "initialize_state", None), (name, "open"))]


def test_each_operator_gets_its_own_state():
    calls = []
    bench = three(calls)
    ids = {made.config.name: made.config.operator_id for made in bench.chain.operators}
    bench.chain.initialize_state_and_open({ids["a"]: "A", ids["c"]: "C"})
    assert [call[2] for call in calls if call[1] == "initialize_state"] == ["C", OperatorSnapshot(), "A"]


def test_an_operator_may_emit_when_it_is_opened():
    class Emitting(StreamOperator):
        def open(self):
            self.output.collect("first", NO_TIMESTAMP)

    taken = []
    bench = Bench(chain_of(operator("a", Emitting), operator("b", lambda: ListSink(taken))))
    bench.chain.make()
    bench.chain.initialize_state_and_open(None)
    assert taken == ["first"]


def test_records_walk_from_head_to_tail_by_reference():
    calls, value = [], object()
    bench = three(calls)
    bench.chain.head.operator.process_element(value, NO_TIMESTAMP)
    assert calls == [("a", value), ("b", value), ("c", value)]
    counters = [made.counters for made in bench.chain.operators]
    assert [each.records_out for each in counters] == [1, 1, 1]
    assert [each.records_in for each in counters] == [0, 1, 1]  # whoever feeds the head counts its records


def test_with_a_drain_each_input_ends_before_its_operator_is_finished():
    calls = []
    bench = three(calls)
    bench.chain.end_input(1)
    bench.chain.finish(True)
    assert calls == [call for name in "abc" for call in ((name, "end_input", 1), (name, "finish"))]


def test_without_a_drain_inputs_do_not_end():
    calls = []
    three(calls).chain.finish(False)
    assert calls == [(name, "finish") for name in "abc"]


def test_mails_of_an_operator_run_before_the_next_one_is_finished():
    calls = []
    bench = three(calls)
    first, second, third = bench.chain.operators
    first.mailbox.submit(lambda: calls.append("mail of a"))
    second.mailbox.submit(lambda: calls.append("mail of b"))
    third.mailbox.submit(lambda: calls.append("mail of c"))
    bench.chain.finish(False)
    assert calls[0] == "mail of a"
    assert calls.index("mail of b") < calls.index(("b", "finish"))
    assert calls.index("mail of c") < calls.index(("c", "finish"))


def test_timers_of_an_operator_do_not_fire_once_it_is_finished():
    calls = []
    bench = three(calls)
    for made in bench.chain.operators:
        made.processing_time.register_timer(5, lambda _, name=made.config.name: calls.append(f"timer of {name}"))
    bench.clock.advance_to(10)
    bench.chain.finish(False)
    assert not any(call == "timer of a" for call in calls)
    assert calls[-1] == ("c", "finish")


def test_what_an_operator_puts_in_finish_is_run():
    calls = []

    class Late(StreamOperator):
        def finish(self):
            self.context.mailbox.submit(lambda: calls.append("mail"))

    bench = Bench(chain_of(operator("a", Late), operator("b", lambda: Recording("b", calls))))
    bench.chain.make()
    bench.chain.finish(False)
    assert calls == ["mail", ("b", "finish")]


@pytest.mark.parametrize("method", ["initialize_state", "open", "end_input", "finish", "prepare_snapshot_pre_barrier"])
def test_an_error_says_which_operator_and_which_method(method):
    bench = three([], failing=(method,), failing_names="b")
    with pytest.raises(LookupError) as caught:
        bench.chain.initialize_state_and_open(None)
        bench.chain.prepare_snapshot_pre_barrier(1)
        bench.chain.finish(True)
    assert caught.value.operator_name == "b"
    if hasattr(caught.value, "__notes__"):
        assert f"{method}()" in caught.value.__notes__[0]


def test_an_error_when_an_operator_is_made_says_which_one():
    def fail():
        raise LookupError("factory")

    bench = Bench(chain_of(operator("a", lambda: Recording("a", [])), operator("b", fail)))
    with pytest.raises(LookupError) as caught:
        bench.chain.make()
    assert caught.value.operator_name == "b"
    assert bench.chain.close() is None


def test_a_barrier_is_prepared_from_head_to_tail_and_state_is_taken_from_tail_to_head():
    calls = []
    bench = three(calls)
    bench.chain.prepare_snapshot_pre_barrier(7)
    state = {config.name: state for config, state in bench.chain.snapshot_state(7)}
    assert [call[0] for call in calls] == list("abc") + list("cba")
    assert state == {name: f"state of {name}" for name in "abc"}


@pytest.mark.parametrize("method", ["notify_checkpoint_complete", "notify_checkpoint_aborted"])
def test_each_operator_is_notified_even_if_another_fails(method):
    calls = []
    bench = three(calls, failing=(method,))
    with pytest.raises(LookupError, match="c notify") as caught:
        bench.chain.notify(method, 7)
    assert calls == [(name, method, 7) for name in "cba"]
    assert str(caught.value.__context__) == f"b {method}"


def test_each_operator_is_closed_even_if_another_fails_and_the_first_error_wins():
    calls = []
    bench = three(calls, failing=("close",))
    error = bench.chain.close()
    assert calls == [(name, "close") for name in "cba"]
    assert (str(error), error.operator_name) == ("c close", "c")
    assert str(error.__context__) == "b close" and str(error.__context__.__context__) == "a close"


def test_an_operator_is_closed_once():
    calls = []
    bench = three(calls)
    bench.chain.close()
    bench.chain.close()
    assert len(calls) == 3


def test_the_context_of_an_operator_is_closed_after_it():
    calls = []

    class Context:
        key_context = None

        def close(self):
            calls.append("context")

    bench = Bench(chain_of(operator("a", lambda: Recording("a", calls))))
    bench.chain._make_context = lambda **_: Context()
    bench.chain.make()
    bench.chain.close()
    assert calls == [("a", "close"), "context"]


class Joining(MultipleInputOperator):
    def __init__(self, calls):
        super().__init__(2, CombinedWatermark(2))
        self.calls = calls

    def process_input_element(self, index, value, timestamp):
        self.calls.append((index, value))

    def end_input(self, number):
        self.calls.append(("end", number))


def tree(calls):
    """a is chained to b, c, and to d, whose second input it feeds; the first is fed by b."""
    edges = {"a": (ChainedEdge(1), ChainedEdge(2), ChainedEdge(3, 2)), "b": (ChainedEdge(3, 1),)}
    makers = {name: (lambda name=name: Recording(name, calls)) for name in "abc"} | {"d": lambda: Joining(calls)}
    return ChainConfig(
        tuple(OperatorConfig(name * 32, name, makers[name], chained_edges=edges.get(name, ())) for name in "abcd")
    )


def test_a_tree_gives_each_consumer_each_record_and_counts_it_once():
    calls = []
    bench = Bench(tree(calls))
    bench.chain.make()
    bench.chain.head.operator.process_element(1, NO_TIMESTAMP)
    assert calls == [("a", 1), ("b", 1), (0, 1), ("c", 1), (1, 1)]
    by_name = {made.config.name: made.counters for made in bench.chain.operators}
    assert by_name["a"].records_out == 1
    assert by_name["d"].records_in == 2


def test_all_inputs_of_an_operator_in_the_chain_end():
    calls = []
    bench = Bench(tree(calls))
    bench.chain.make()
    bench.chain.finish(True)
    assert [call for call in calls if call[0] == "end"] == [("end", 1), ("end", 2)]


def test_event_time_of_a_join_in_the_chain_is_the_lower_one():
    bench = Bench(tree([]))
    bench.chain.make()
    bench.chain.head.output.emit_watermark(5)
    joined = bench.chain.operators[3]
    assert joined.counters.input_watermark == 5


@pytest.mark.parametrize(
    ("edge", "message"), [(ChainedEdge(0), "stands before"), (ChainedEdge(1, 2), "has 1 inputs, .* leads to 2")]
)
def test_edges_that_lead_nowhere_are_refused(edge, message):
    first = OperatorConfig("a" * 32, "a", lambda: Recording("a", []), chained_edges=(edge,))
    second = OperatorConfig("b" * 32, "b", lambda: Recording("b", []))
    with pytest.raises(ValueError, match=message):
        Bench(ChainConfig((first, second))).chain.make()
