"""Accumulators: what subtasks add up, merged, is what one of them had added up alone."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faults.collector import collector_runs

from flinkbuf.metrics import MetricGroup
from flinkbuf.streaming.chain.accumulators import (
    KINDS,
    Accumulator,
    AccumulatorRegistry,
    AverageAccumulator,
    DoubleCounter,
    DoubleMaximum,
    Histogram,
    IntCounter,
    IntMinimum,
    ListAccumulator,
    merge_accumulators,
    results_of,
)
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.chain.runtime_context import RuntimeContext
from flinkbuf.streaming.state.operator_state import OperatorStateBackend


def context(accumulators=None):
    task = TaskInfo("j" * 32, "job", "v" * 32, "Map")
    return RuntimeContext(task, ExecutionSettings(), MetricGroup(), None, OperatorStateBackend(), accumulators)


def travelled(registry):
    return json.loads(json.dumps(registry.to_json()))


@pytest.mark.parametrize("kind", KINDS.values())
@given(parts=st.lists(st.lists(st.integers(-100, 100), max_size=5), min_size=1, max_size=4))
def test_parts_that_travelled_and_were_merged_are_the_whole(kind, parts):
    whole, registries = kind(), []
    for part in parts:
        registry = AccumulatorRegistry()
        registry.add("n", accumulator := kind())
        for value in part:
            accumulator.add(value)
            whole.add(value)
        registries.append(registry)
    merged = merge_accumulators(travelled(registry) for registry in registries)
    assert results_of(json.loads(json.dumps(merged)))["n"] == whole.get_local_value()


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_reset_one_is_as_new(kind):
    accumulator = kind()
    accumulator.add(3)
    assert accumulator.get_local_value() != kind().get_local_value()
    accumulator.reset_local()
    assert accumulator.get_local_value() == kind().get_local_value()
    assert kind.__name__ in repr(accumulator)


def test_averages_weigh_what_they_are_of():
    one, other = AverageAccumulator(), AverageAccumulator()
    for value in (1, 2, 3):
        one.add(value)
    other.add(10)
    one.merge(other)
    assert one.get_local_value() == 4.0


def test_without_any_value():
    assert AverageAccumulator().get_local_value() == 0.0
    assert IntMinimum().get_local_value() is None
    assert ListAccumulator().get_local_value() == []


@pytest.mark.parametrize("value", [1.5, "1", None])
def test_whole_numbers_only(value):
    for kind in (IntCounter, IntMinimum, Histogram):
        with pytest.raises((TypeError, AttributeError)):
            kind().add(value)


def test_a_list_holds_what_json_can_carry_and_a_copy_of_it():
    values = ListAccumulator()
    with pytest.raises(TypeError, match="not JSON serializable"):
        values.add(object())
    given_list = [1]
    values.add(given_list)
    given_list.append(2)
    assert values.get_local_value() == [[1]]


def test_different_kinds_of_one_name_do_not_merge():
    parts = []
    for kind in (IntCounter, DoubleCounter):
        registry = AccumulatorRegistry()
        registry.add("n", kind())
        parts.append(registry.to_json())
    with pytest.raises(ValueError, match="'n' is IntCounter in one task and DoubleCounter in another"):
        merge_accumulators(parts)


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="'n' is of an unknown kind 'Other'"):
        merge_accumulators([{"n": {"type": "Other", "value": 1}}])


def test_infinite_numbers_are_numbers():
    greatest = DoubleMaximum()
    greatest.add(math.inf)
    assert greatest.get_local_value() == math.inf


def test_functions_of_one_task_share_names():
    registry = AccumulatorRegistry()
    here, there = context(registry), context(registry)
    here.add_accumulator("lines", lines := IntCounter())
    assert there.get_accumulator("lines") is lines
    assert there.get_accumulator("words") is None
    with pytest.raises(ValueError, match="'lines' already exists"):
        there.add_accumulator("lines", IntCounter())
    assert list(registry) == ["lines"]


def test_counters_are_made_when_they_are_asked_for():
    runtime_context = context()
    runtime_context.get_int_counter("lines").add(2)
    assert runtime_context.get_int_counter("lines").get_local_value() == 2
    runtime_context.get_double_counter("distance").add(0.5)
    runtime_context.get_histogram("stops").add(1)
    with pytest.raises(TypeError, match="'lines' is of kind IntCounter, not DoubleCounter"):
        runtime_context.get_double_counter("lines")


def test_what_cannot_be_merged_elsewhere_is_refused():
    class Mine(IntCounter):
        pass

    registry = AccumulatorRegistry()
    with pytest.raises(TypeError, match="an accumulator is one of IntCounter, DoubleCounter"):
        registry.add("n", Mine())
    with pytest.raises(TypeError, match="name is a text"):
        registry.add(3, IntCounter())
    assert issubclass(Mine, Accumulator)


def test_accumulators_come_while_the_others_are_told():
    registry, names = AccumulatorRegistry(), iter(map(str, range(1000)))

    def add():
        registry.add(next(names), IntCounter())

    for _ in range(10):
        add()
    with collector_runs(add):
        assert len(registry.to_json()) >= 10
