"""How fast do elements come out of sources, next to a plain loop that calls a function for each?

The rival is the shortest program without a stream: a `for` loop over the same elements and one call of a function that
says no. Behind a source stands a chained filter that calls the same function: what differs is what a stream adds.
"""

import pytest
from measure import measure, scaled

from flinkbuf._core.operators.function_operator import FilterOperator
from flinkbuf._core.operators.source_operator import IteratorSourceOperator, ReaderOutput
from flinkbuf._core.task.operator_chain import ChainingOutput, OperatorCounters

COUNT = scaled(200_000)
ELEMENTS = list(range(COUNT))
TURN = 1_000  # records


class Nothing:
    key_context = None


def says_no(value):
    return False


def chained_filter():
    return ChainingOutput(OperatorCounters(), FilterOperator(says_no), OperatorCounters())


def plain_loop():
    for element in ELEMENTS:
        says_no(element)


def iterator_source():
    """The operator of collections and iterables."""
    source, output = IteratorSourceOperator(lambda context: ELEMENTS), chained_filter()
    source.setup(Nothing, output)
    source.open()
    while not source.emit_next(output, TURN):
        pass


def reader_in_batches():
    """A reader that hands over iterators."""
    output, elements = ReaderOutput(chained_filter()), iter(ELEMENTS)
    while output.collect_from(elements):
        pass


def reader_one_by_one():
    """A reader that emits one record a call."""
    collect = ReaderOutput(chained_filter()).collect
    for element in ELEMENTS:
        collect(element)


CASES = {
    f"source_operator.{function.__name__}": function
    for function in (plain_loop, iterator_source, reader_in_batches, reader_one_by_one)
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, CASES[name], COUNT, "records", benchmark=benchmark)


if __name__ == "__main__":
    for name, function in CASES.items():
        measure(name, function, COUNT, "records")
