"""Rolling reductions of a keyed stream. PyFlink: test_data_stream.py (reduce, sum, min, max, min_by, max_by)."""

import pickle
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.operators.aggregate_operator import FieldReduce
from flinkbuf.streaming.chain.aggregations import ReduceOperatorFactory, field_reduce
from flinkbuf.streaming.chain.functions import ReduceFunction
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Row, StreamRecord, Watermark

MAX = 2**63 - 1
KINDS = ["sum", "min", "max", "min_by", "max_by"]


def key_of(value):
    return value[0]


def harness(reduce_function, selector=key_of, **arguments):
    return OperatorHarness(ReduceOperatorFactory(selector, reduce_function, **arguments)())


def results(reduce_function, values, selector=key_of):
    with harness(reduce_function, selector) as operator:
        for value in values:
            operator.process_element(value)
        return operator.output_values


def test_each_record_is_followed_by_the_result_of_its_key_so_far():
    with harness(lambda one, other: (one[0], one[1] + other[1])) as operator:
        for number, key in enumerate("abab", 1):
            operator.process_element((key, number), number * 10)
        assert operator.output == [
            StreamRecord(("a", 1), 10),
            StreamRecord(("b", 2), 20),
            StreamRecord(("a", 4), 30),
            StreamRecord(("b", 6), 40),
        ]


# What PyFlink 2.2 gives for these.
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", [("a", 3, "x"), ("a", 4, "x"), ("a", 9, "x"), ("a", 10, "x")]),
        ("min", [("a", 3, "x"), ("a", 1, "x"), ("a", 1, "x"), ("a", 1, "x")]),
        ("max", [("a", 3, "x"), ("a", 3, "x"), ("a", 5, "x"), ("a", 5, "x")]),
        ("min_by", [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "y"), ("a", 1, "y")]),
        ("max_by", [("a", 3, "x"), ("a", 3, "x"), ("a", 5, "z"), ("a", 5, "z")]),
    ],
)
@pytest.mark.parametrize("made", [tuple, list, lambda fields: Row(*fields)], ids=["tuple", "list", "Row"])
def test_one_field_is_aggregated_and_the_others_stay_those_of_the_first(kind, expected, made):
    values = [made(fields) for fields in [("a", 3, "x"), ("a", 1, "y"), ("a", 5, "z"), ("a", 1, "w")]]
    assert results(field_reduce(kind, 1), values) == [made(fields) for fields in expected]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", [3, 4, 9]),
        ("min", [3, 1, 1]),
        ("max", [3, 3, 5]),
        ("min_by", [3, 1, 1]),
        ("max_by", [3, 3, 5]),
    ],
)
def test_plain_values_are_aggregated_as_a_whole(kind, expected):
    assert results(field_reduce(kind, 0), [3, 1, 5], lambda value: 0) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_may_be_named(kind):
    values = [Row(key="a", delay=3), Row(key="a", delay=1)]
    by_name, by_position = (results(field_reduce(kind, field), values) for field in ("delay", 1))
    assert by_name == by_position
    assert by_name[-1].delay == {"sum": 4, "min": 1, "max": 3, "min_by": 1, "max_by": 3}[kind]


def test_named_tuples_stay_what_they_are():
    Flight = namedtuple("Flight", "origin delay")
    assert results(field_reduce("sum", "delay"), [Flight("a", 1), Flight("a", 2)])[-1] == Flight("a", 3)


@pytest.mark.parametrize("made", [tuple, list])
def test_what_was_emitted_is_not_changed_afterwards(made):
    values = [made(("a", 1)), made(("a", 2)), made(("a", 3))]
    assert results(field_reduce("sum", 1), values) == [made(("a", 1)), made(("a", 3)), made(("a", 6))]
    assert values == [made(("a", 1)), made(("a", 2)), made(("a", 3))]


def test_positions_count_from_the_end_when_negative():
    assert field_reduce("sum", -1)(("a", 1), ("a", 2)) == ("a", 3)


@given(st.sampled_from(KINDS), st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=30))
def test_aggregations_are_what_a_dict_and_a_loop_give(kind, values):
    state, expected = {}, []
    for key, number in values:
        before = state.get(key, number if kind != "sum" else 0)
        total = before + number if kind == "sum" else (min if "min" in kind else max)(before, number)
        state[key] = total
        expected.append((key, total))
    assert results(field_reduce(kind, 1), values) == expected


@pytest.mark.parametrize("position", [1.5, None, [1]])
def test_a_position_is_a_number_or_a_name(position):
    with pytest.raises(TypeError, match="The field position must be of int or str type"):
        field_reduce("sum", position)


@pytest.mark.parametrize(
    ("position", "values", "error", "sentence"),
    [
        (1, (1, 2), TypeError, "The 1 field selected on a basic type. .* can only select the 0th field"),
        ("x", (1, 2), TypeError, "The 'x' field selected on a basic type"),
        (5, (("a", 1), ("a", 2)), IndexError, r"there is no field 5: \('a', 1\) has 2 fields"),
        (-3, (("a", 1), ("a", 2)), IndexError, "there is no field -3"),
        ("x", (("a", 1), ("a", 2)), TypeError, "the field 'x' is asked for by name, but .* has no names"),
        ("x", (Row(a=1), Row(a=2)), ValueError, r"there is no field 'x': the fields are \['a'\]"),
        (1, (("a", 1), ("a", "b")), TypeError, "unsupported operand"),
    ],
)
def test_what_cannot_be_added_up_is_told_so(position, values, error, sentence):
    with harness(field_reduce("sum", position), lambda value: 0) as operator:
        operator.process_element(values[0])
        with pytest.raises(error, match=sentence):
            operator.process_element(values[1])
        assert operator.operator.is_in_function
        assert operator.operator.value_in_hand == values[1]


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(ValueError, match="the kinds of aggregation are"):
        FieldReduce("mean", 0)


def test_a_field_reduction_can_be_pickled():
    made = pickle.loads(pickle.dumps(field_reduce("max_by", "delay")))
    assert made(Row(delay=1), Row(delay=2)) == Row(delay=2)


def test_reduce_functions_are_opened_and_closed():
    calls = []

    class Last(ReduceFunction):
        def open(self, runtime_context):
            calls.append("open")

        def reduce(self, value1, value2):
            return value2

        def close(self):
            calls.append("close")

    assert results(Last(), [("a", 1), ("a", 2)]) == [("a", 1), ("a", 2)]
    assert calls == ["open", "close"]


def test_a_reduction_to_none_begins_anew():
    assert results(lambda one, other: None, [("a", 1), ("a", 2), ("a", 3)]) == [("a", 1), None, ("a", 3)]


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="The input must be a ReduceFunction or a callable function"):
        ReduceOperatorFactory(key_of, 5)


def test_an_error_of_the_function_goes_up_with_the_record_in_hand():
    def fail(one, other):
        raise KeyError("reduce")

    with harness(fail) as operator:
        operator.process_element(("a", 1))
        assert not operator.operator.is_in_function
        with pytest.raises(KeyError, match="reduce"):
            operator.process_element(("a", 2))
        assert operator.operator.is_in_function
        assert operator.operator.value_in_hand == ("a", 2)


def test_in_batch_execution_results_come_at_the_end():
    with harness(field_reduce("sum", 1), is_batch=True) as operator:
        for number, key in enumerate("abab", 1):
            operator.process_element((key, number), number)
        assert operator.output == []
        operator.process_watermark(MAX)
        assert operator.output == [StreamRecord(("a", 4), MAX), StreamRecord(("b", 6), MAX), Watermark(MAX)]


@given(values=st.lists(st.tuples(st.sampled_from("abc"), st.integers())), cut=st.integers(0, 30))
def test_results_are_the_same_wherever_the_operator_is_restored(values, cut):
    factory = ReduceOperatorFactory(key_of, field_reduce("sum", 1))
    with OperatorHarness(factory()) as before:
        for value in values[:cut]:
            before.process_element(value)
        snapshot = before.snapshot()
    with OperatorHarness(factory(), restore=snapshot) as after:
        for value in values[cut:]:
            after.process_element(value)
        assert before.output_values + after.output_values == results(field_reduce("sum", 1), values)
