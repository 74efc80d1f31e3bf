"""Operators that end a chain."""

import pytest
from support.worlds.surroundings import Surroundings

from flinkbuf._core.operators.sink_operator import SinkFunctionOperator, SinkWriterOperatorBase
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.types.values import LatencyMarker


def test_a_function_is_called_with_each_value():
    values = []
    sink = Surroundings().open(SinkFunctionOperator(values.append))
    sink.process_element(1, NO_TIMESTAMP)
    sink.process_element(None, 5)
    assert values == [1, None]


def test_a_function_with_a_context_sees_timestamp_watermark_and_time():
    seen = []
    around = Surroundings()

    def invoke(value, context):
        seen.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time()))

    sink = around.open(SinkFunctionOperator(invoke, takes_context=True))
    sink.process_element("a", NO_TIMESTAMP)
    around.time.advance_to(50)
    sink.process_watermark(3)
    sink.process_element("b", 5)
    assert seen == [("a", None, -(2**63), 0), ("b", 5, 3, 50)]


@pytest.mark.parametrize("takes_context", [False, True])
def test_a_failing_function_leaves_the_record_in_hand(takes_context):
    def fail(*arguments):
        raise ValueError("no")

    sink = Surroundings().open(SinkFunctionOperator(fail, takes_context=takes_context))
    with pytest.raises(ValueError, match="no"):
        sink.process_element(7, NO_TIMESTAMP)
    assert sink.is_in_function and sink.value_in_hand == 7


class Writer:
    def __init__(self):
        self.written = []

    def write(self, element, context):
        if element is None:
            raise ValueError("nothing to write")
        self.written.append((element, context.timestamp(), context.current_watermark()))


def test_a_writer_is_given_each_record_with_its_surroundings():
    writer, sink = Writer(), Surroundings().open(SinkWriterOperatorBase())
    sink.use_writer(writer)
    sink.process_element("a", 1)
    sink.process_watermark(1)
    sink.process_element("b", NO_TIMESTAMP)
    assert writer.written == [("a", 1, -(2**63)), ("b", None, 1)]
    with pytest.raises(ValueError, match="nothing to write"):
        sink.process_element(None, 2)
    assert sink.is_in_function and sink.value_in_hand is None


@pytest.mark.parametrize("kind", [SinkFunctionOperator, SinkWriterOperatorBase])
def test_a_sink_records_latency_markers_and_sends_none_on(kind):
    around = Surroundings()
    sink = around.open(kind(print) if kind is SinkFunctionOperator else kind())
    around.time.advance_to(107)
    sink.process_latency_marker(LatencyMarker(100, bytes(16), 0))
    assert around.output.elements == []
    (histogram,) = around.context.latency.histograms.values()
    assert list(histogram.statistics().values) == [7]
