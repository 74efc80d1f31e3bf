"""Outputs between the operators of a chain. Flink: OperatorChainTest, StreamOperatorChainingTest."""

from types import SimpleNamespace

import pytest
from support.worlds.stream_tasks import ListSink

import flinkbuf as fb
from flinkbuf._core.operators.function_operator import FilterOperator
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.record.plain_function import quickened
from flinkbuf._core.task.operator_chain import BroadcastingOutput, ChainingOutput, OperatorCounters


class Edges:
    """Edges of one operator to sinks, each with its tag."""

    def __init__(self, *tags):
        self.counters = OperatorCounters()
        self.task_counters = OperatorCounters()
        self.sinks = [ListSink([]) for _ in tags]
        self.target_counters = [OperatorCounters() for _ in tags]
        self.edges = [
            ChainingOutput(self.counters, sink, target, tag)
            for sink, target, tag in zip(self.sinks, self.target_counters, tags, strict=True)
        ]
        self.output = BroadcastingOutput(self.counters, self.task_counters, self.edges)

    @property
    def taken(self):
        return [sink.items for sink in self.sinks]


def test_a_record_goes_to_the_next_operator_by_reference():
    edges, value = Edges(None), ["x"]
    edges.edges[0].collect(value, NO_TIMESTAMP)
    edges.edges[0].collect(value, 5)
    assert edges.sinks[0].items[0] is value
    assert edges.sinks[0].items[1] == fb.types.StreamRecord(value, 5)
    assert (edges.counters.records_out, edges.target_counters[0].records_in) == (2, 2)


def test_main_records_do_not_go_to_the_edge_of_a_side_output():
    edges = Edges("late")
    edges.edges[0].collect(1, NO_TIMESTAMP)
    assert edges.taken == [[]]
    assert edges.counters.records_out == 0


@pytest.mark.parametrize(("tag", "is_taken"), [("late", True), ("other", False)])
def test_a_side_output_goes_only_to_edges_with_its_tag(tag, is_taken):
    edges = Edges("late")
    edges.edges[0].collect_side(tag, 1, NO_TIMESTAMP)
    assert edges.taken == [[1]] if is_taken else [[]]
    assert edges.counters.records_out == is_taken


def test_a_side_record_does_not_go_to_the_main_edge():
    edges = Edges(None)
    edges.edges[0].collect_side("late", 1, NO_TIMESTAMP)
    assert edges.taken == [[]]


def test_with_several_edges_each_gets_what_is_for_it_and_a_record_counts_once():
    edges = Edges(None, "late", None, "late", "other")
    edges.output.collect("m", NO_TIMESTAMP)
    edges.output.collect_side("late", "s", NO_TIMESTAMP)
    edges.output.collect_side("nobody", "n", NO_TIMESTAMP)
    assert edges.taken == [["m"], ["s"], ["m"], ["s"], []]
    assert edges.counters.records_out == 2
    assert [target.records_in for target in edges.target_counters] == [1, 1, 1, 1, 0]


def test_without_an_edge_records_are_counted_and_dropped():
    edges = Edges()
    edges.output.collect(1, NO_TIMESTAMP)
    edges.output.emit_watermark(1)
    assert edges.counters.records_out == 1


def test_one_main_edge_beside_side_outputs_gets_all_main_records():
    edges = Edges("late", None)
    edges.output.collect(1, 7)
    assert edges.taken == [[], [fb.types.StreamRecord(1, 7)]]


def test_watermarks_go_to_all_edges_and_are_noted():
    edges = Edges(None, "late")
    edges.output.emit_watermark(5)
    assert edges.taken == [[fb.types.Watermark(5)], [fb.types.Watermark(5)]]
    assert edges.counters.output_watermark == 5
    assert edges.target_counters[0].input_watermark == 5


def test_a_watermark_is_dropped_while_the_edge_is_idle():
    edges = Edges(None)
    output = edges.edges[0]
    output.emit_watermark_status(True)
    output.emit_watermark(5)
    output.emit_watermark_status(False)
    output.emit_watermark(6)
    assert edges.taken == [["idle", "active", fb.types.Watermark(6)]]
    assert edges.counters.output_watermark == 6


def test_only_a_status_that_differs_from_the_announced_one_goes_on():
    edges = Edges(None)
    for is_idle in (False, True, True, False, False):
        edges.output.emit_watermark_status(is_idle)
    assert edges.taken == [["idle", "active"]]


def test_a_latency_marker_goes_along_every_edge():
    edges, marker = Edges(None, "late"), fb.types.LatencyMarker(1, bytes(16), 0)
    edges.output.emit_latency_marker(marker)
    assert edges.taken == [[marker], [marker]]


def test_before_the_first_watermark_there_is_none():
    assert OperatorCounters().input_watermark == -(2**63)


class Counted:
    """Says how often it was copied."""

    copies = 0

    def __init__(self, price):
        self.price = price

    def __reduce__(self):
        Counted.copies += 1
        return Counted, (self.price,)


def filtered(function, *values):
    """What comes through a filter on one of several ways, and how many records it was given."""
    sink, counters, given = ListSink([]), OperatorCounters(), OperatorCounters()
    operator = FilterOperator(function)
    operator.setup(SimpleNamespace(key_context=None), ChainingOutput(OperatorCounters(), sink, OperatorCounters()))
    edge = ChainingOutput(counters, operator, given, copies=True)
    for value in values:
        edge.collect(value, NO_TIMESTAMP)
    assert counters.records_out == given.records_in == len(values)
    return sink.items


def test_what_a_look_is_enough_to_drop_is_not_copied_for_its_way():
    value, Counted.copies = (1, Counted(5)), 0
    assert filtered(quickened(lambda value: value[0] > 1), value) == [] and Counted.copies == 0
    assert filtered(quickened(lambda value: type(value) is int), value[1], 3) == [3] and Counted.copies == 0


def test_what_a_filter_lets_through_or_may_change_is_a_copy():
    values = [[1, ["a"]], [2, ["b"]]]
    (through,) = filtered(quickened(lambda value: value[0] > 1), *values)
    assert through == values[1] and through is not values[1] and through[1] is not values[1][1]
    assert filtered(lambda value: value.pop() is None, *values) == []
    assert values == [[1, ["a"]], [2, ["b"]]]


def test_a_filter_with_another_kind_of_result_is_asked_as_any_other():
    values = [[0, "a"], ["", "b"], [None, "c"], [[], "d"], [3, "e"]]
    assert filtered(quickened(lambda value: value[0]), *values) == [[3, "e"]]
    with pytest.raises(IndexError):
        filtered(quickened(lambda value: value[0]), [])
