"""What a function is told in open()."""

import pytest

from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.metrics import MetricGroup
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.chain.runtime_context import RuntimeContext
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.task.task_figures import METRICS_LIMIT, user_metrics
from flinkbuf.testing import OperatorHarness


def context_of(keyed_state=None, metrics=None):
    task = TaskInfo("j", "job", "v", "Map", subtask_index=1, parallelism=4, max_parallelism=64, attempt_number=2)
    settings = ExecutionSettings(job_parameters={"threshold": "5"})
    return RuntimeContext(task, settings, metrics or MetricGroup(), keyed_state, OperatorStateBackend())


def test_it_says_which_subtask_this_is():
    context = context_of()
    assert (
        context.get_task_name(),
        context.get_task_name_with_subtasks(),
        context.get_number_of_parallel_subtasks(),
        context.get_max_number_of_parallel_subtasks(),
        context.get_index_of_this_subtask(),
        context.get_attempt_number(),
    ) == ("Map", "Map (2/4)#2", 4, 64, 1, 2)
    assert context.get_job_parameter("threshold", "1") == "5" and context.get_job_parameter("other", "1") == "1"


def test_metrics_are_the_operator_s():
    metrics = MetricGroup()
    group = context_of(metrics=metrics).get_metrics_group()
    group.counter("seen").inc(3)
    group.counter("seen").dec()
    group.gauge("depth", lambda: 7)
    group.meter("rate").mark_event(5)
    group.distribution("size").update(4)
    group.add_group("by", "kind").counter("seen").inc()
    sample = metrics.sample()
    assert (sample["seen"], sample["depth"], sample["by.kind.seen"], sample["size"].max) == (2, 7, 1, 4)
    assert group.meter("rate").get_count() == 5 and group.counter("seen").get_count() == 2
    with pytest.raises(ValueError, match="'seen' already, of another kind"):
        group.meter("seen")
    with pytest.raises(TypeError, match="takes a callable"):
        group.gauge("x", 5)


def test_state_is_for_keyed_streams():
    with pytest.raises(RuntimeError, match="only accessible by functions executed on a KeyedStream: call key_by"):
        context_of().get_state(ValueStateDescriptor("s", None))


def test_each_kind_wants_its_descriptor():
    with OperatorHarness(StreamOperator()) as harness:
        context = harness.context.runtime_context
        descriptors = {"list": ListStateDescriptor("l", None), "map": MapStateDescriptor("m", None, None)}
        assert context.get_list_state(descriptors["list"]) is context.get_list_state(descriptors["list"])
        for method in ("get_state", "get_reducing_state", "get_aggregating_state"):
            for descriptor in (*descriptors.values(), "count", None):
                with pytest.raises(TypeError, match="expected a .*Descriptor, got"):
                    getattr(context, method)(descriptor)


def test_what_a_heartbeat_carries_of_metrics_is_bounded():
    metrics = MetricGroup()
    group = context_of(metrics=metrics).get_metrics_group()
    for number in range(2 * METRICS_LIMIT):
        group.counter(f"{'n' * 300}{number}" if number == 0 else str(number)).inc()
    group.gauge("last", lambda: 1)
    values = user_metrics(metrics)
    assert len(values) == METRICS_LIMIT and max(map(len, values)) == 200
    others = MetricGroup()
    own = context_of(metrics=others).get_metrics_group()
    own.gauge("wide", lambda: dict.fromkeys(range(1000)))
    own.gauge("bad", lambda: 1 / 0)
    own.counter("good").inc()
    assert [len(user_metrics(others)["wide"]), user_metrics(others)["bad"], user_metrics(others)["good"]] == [
        20,
        None,
        1,
    ]


def test_groups_of_key_and_value_are_labels():
    metrics = MetricGroup()
    group = context_of(metrics=metrics).get_metrics_group()
    group.counter("plain").inc()
    group.add_group("kind", "late").add_group("from").add_group("airport", "JFK").counter("seen").inc()
    assert dict(metrics.sample()) == {"plain": 1, "kind.late.from.airport.JFK.seen": 1}
    assert [dict(each) for each in metrics.variables()] == [{}, {"kind": "late", "airport": "JFK"}]
    assert group.add_group("kind", "late") is group.add_group("kind", "late")
