"""Operators that call one function of the user for each record."""

from types import SimpleNamespace

import pytest

from flinkbuf._core.operators.function_operator import (
    CoFlatMapOperator,
    CoMapOperator,
    FilterOperator,
    FlatMapOperator,
    MapOperator,
)
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, Output
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.types.types import Types


class Collected(Output):
    def __init__(self):
        self.records = []

    def collect(self, value, timestamp):
        self.records.append((value, timestamp))

    def emit_watermark(self, timestamp):
        self.records.append(("watermark", timestamp))


class Life:
    def __init__(self):
        self.calls = []

    def open(self, context):
        self.calls.append(f"open {context}")

    def close(self):
        self.calls.append("close")


class NoSurroundings:
    key_context = None


def output_of(operator, *values, timestamp=NO_TIMESTAMP):
    output = Collected()
    operator.setup(NoSurroundings, output)
    for value in values:
        operator.process_element(value, timestamp)
    return output.records


def test_map_gives_one_result_with_the_record_s_timestamp():
    assert output_of(MapOperator(lambda value: value + 1), 1, 2, timestamp=7) == [(2, 7), (3, 7)]


def test_filter_keeps_what_the_function_finds_true():
    assert output_of(FilterOperator(lambda value: value % 2), 1, 2, 3) == [(1, NO_TIMESTAMP), (3, NO_TIMESTAMP)]


@pytest.mark.parametrize("results", [(), [1, 2], iter([1, 2]), {1: "a", 2: "b"}, "12"])
def test_flat_map_gives_all_that_the_function_returns(results):
    expected = [(result, NO_TIMESTAMP) for result in ("12" if results == "12" else [1, 2] if results else [])]
    assert output_of(FlatMapOperator(lambda value: results), 0) == expected


@pytest.mark.parametrize("result", [None, 7])
def test_flat_map_refuses_what_has_no_elements(result):
    operator = FlatMapOperator(lambda value: result)
    with pytest.raises(TypeError, match="not iterable"):
        output_of(operator, 0)
    assert operator.is_in_function


@pytest.mark.parametrize("kind", [MapOperator, FilterOperator, FlatMapOperator])
def test_a_failing_function_leaves_the_record_in_hand(kind):
    operator = kind(lambda value: 1 // value)
    with pytest.raises(ZeroDivisionError):
        output_of(operator, 0)
    assert operator.is_in_function
    assert operator.value_in_hand == 0


def test_an_error_of_what_comes_after_is_not_the_function_s():
    class Refuses(Output):
        def collect(self, value, timestamp):
            raise OSError("no room")

    operator = FlatMapOperator(lambda value: [value])
    operator.setup(NoSurroundings, Refuses())
    with pytest.raises(OSError, match="no room"):
        operator.process_element(1, 2)
    assert not operator.is_in_function


def keyed_context():
    return SimpleNamespace(key_context=KeyContext(), runtime_context="context")


@pytest.mark.parametrize("kind", [MapOperator, FilterOperator, FlatMapOperator])
def test_a_key_selector_sets_the_key_before_the_function_is_called(kind):
    context, seen = keyed_context(), []

    def function(value):
        seen.append((value, context.key_context.key))
        return [value]

    operator = kind(function, None, len)
    operator.setup(context, Collected())
    operator.process_element("to", 1)
    operator.process_element("not", 2)
    assert seen == [("to", 2), ("not", 3)]


def test_an_error_of_the_key_selector_is_found_like_one_of_the_function():
    operator = MapOperator(str, None, len)
    operator.setup(keyed_context(), Collected())
    with pytest.raises(TypeError, match="has no len"):
        operator.process_element(7, 1)
    assert operator.is_in_function and operator.value_in_hand == 7


def co_operator(kind, *functions, **options):
    operator = kind(functions, CombinedWatermark(2), **options)
    operator.setup(keyed_context(), output := Collected())
    return operator, output.records


def test_co_map_gives_what_the_input_s_function_returns_unless_it_is_none():
    operator, records = co_operator(CoMapOperator, lambda value: value or None, str.upper)
    operator.inputs[0].process_element(1, 10)
    operator.inputs[0].process_element(0, 11)
    operator.inputs[1].process_element("a", 12)
    assert records == [(1, 10), ("A", 12)]


def test_co_flat_map_gives_all_elements_and_none_is_none():
    operator, records = co_operator(CoFlatMapOperator, range, lambda value: value)
    operator.inputs[0].process_element(2, 10)
    operator.inputs[1].process_element(None, 11)
    operator.inputs[1].process_element("ab", 12)
    assert records == [(0, 10), (1, 10), ("a", 12), ("b", 12)]


@pytest.mark.parametrize("kind", [CoMapOperator, CoFlatMapOperator])
def test_a_failing_co_function_leaves_the_record_in_hand(kind):
    operator, _ = co_operator(kind, lambda value: [1 // value], lambda value: [value])
    operator.inputs[1].process_element(5, 1)
    assert not operator.is_in_function
    with pytest.raises(ZeroDivisionError):
        operator.inputs[0].process_element(0, 1)
    assert operator.is_in_function and operator.value_in_hand == 0


def test_each_input_of_a_co_operator_has_its_own_key_selector():
    keys = []
    operator, _ = co_operator(
        CoMapOperator,
        lambda value: keys.append(operator.key_context.key),
        lambda value: keys.append(operator.key_context.key),
        key_selectors=(len, str.upper),
    )
    operator.inputs[0].process_element("abc", 1)
    operator.inputs[1].process_element("abc", 1)
    assert keys == [3, "ABC"]


def test_event_time_of_a_co_operator_is_that_of_the_slower_input():
    operator, records = co_operator(CoMapOperator, str, str)
    operator.inputs[0].process_watermark(5)
    assert records == []
    operator.inputs[1].process_watermark(3)
    assert records == [("watermark", 3)]


def test_a_declared_type_converts_what_the_function_returns():
    operator = MapOperator(lambda value: value)
    operator.declare_output(Types.DOUBLE().codec)
    operator.setup(keyed_context(), output := Collected())
    operator.process_element(3, 1)
    assert output.records == [(3.0, 1)] and type(output.records[0][0]) is float


@pytest.mark.parametrize("kind", [MapOperator, FlatMapOperator])
def test_what_a_declared_type_refuses_is_an_error_at_the_record(kind):
    operator = kind(lambda value: value)
    operator.declare_output(Types.INT().codec)
    operator.setup(keyed_context(), Collected())
    with pytest.raises(TypeError, match="'a'"):
        operator.process_element("a", 1)
    assert operator.is_in_function and operator.value_in_hand == "a"


@pytest.mark.parametrize("make", [lambda life: MapOperator(str, life), lambda life: two_inputs(life)])
def test_a_life_cycle_is_opened_with_the_runtime_context_and_closed(make):
    operator = make(life := Life())
    operator.setup(keyed_context(), Collected())
    operator.open()
    operator.close()
    assert life.calls == ["open context", "close"]


def two_inputs(life):
    return CoMapOperator((str, str), CombinedWatermark(2), life)
