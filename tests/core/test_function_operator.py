"""Operators that call one function of the user for each record."""

import pytest

from flinkbuf._core.function_operator import FilterOperator, FlatMapOperator, MapOperator
from flinkbuf._core.stream_operator import NO_TIMESTAMP, Output


class Collected(Output):
    def __init__(self):
        self.records = []

    def collect(self, value, timestamp):
        self.records.append((value, timestamp))


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
