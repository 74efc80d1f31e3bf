"""Sources that are Python iterables."""

import pickle

import cloudpickle
import pytest
from surroundings import Surroundings

from flinkbuf.streaming.by_reference import CannotBeginAgainError
from flinkbuf.streaming.input_status import InputStatus
from flinkbuf.streaming.source_factories import CollectionSourceFactory, source_factory_of
from flinkbuf.types.types import Types
from flinkbuf.types.values import StreamRecord, Watermark


def emitted(factory):
    """All that a source emits after it was pickled for its subtask."""
    around = Surroundings()
    around.context.runtime_context = "the runtime context"
    source = around.open(pickle.loads(cloudpickle.dumps(factory))())
    assert around.run_source(source) == InputStatus.END_OF_INPUT
    source.close()
    return around.output.elements


@pytest.mark.parametrize("elements", ["ab", ["a", "b"], {"a": 1, "b": 2}, iter(["a", "b"]), (c for c in "ab")])
def test_a_collection_is_anything_that_can_be_walked(elements):
    assert emitted(CollectionSourceFactory(elements)) == [StreamRecord("a"), StreamRecord("b")]


def test_a_collection_is_taken_as_it_is_when_the_stream_is_made():
    elements = [1]
    factory = CollectionSourceFactory(elements)
    elements.append(2)
    assert emitted(factory) == [StreamRecord(1)]
    assert isinstance(CollectionSourceFactory(range(10**9)).elements, range)


def test_what_cannot_be_walked_is_refused():
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        CollectionSourceFactory(7)


def test_elements_are_converted_to_their_declared_type():
    elements = emitted(CollectionSourceFactory([1, 2.0], Types.DOUBLE()))
    assert [type(each.value) for each in elements] == [float, float]
    with pytest.raises(TypeError):
        CollectionSourceFactory(["a"], Types.INT())


def test_a_stream_s_own_elements_are_values_of_a_collection_but_not_of_an_iterable():
    elements = [StreamRecord("a", 3), Watermark(3)]
    assert emitted(CollectionSourceFactory(elements)) == [StreamRecord(element) for element in elements]
    assert emitted(source_factory_of(elements)) == elements


def test_an_iterable_is_the_program_s_own():
    numbers = iter(range(3))
    factory = source_factory_of(numbers)
    assert emitted(factory) == [StreamRecord(number) for number in range(3)]
    assert list(numbers) == []


def test_a_function_is_called_where_the_source_runs():
    def numbers():
        yield 1

    def contexts(runtime_context):
        return [runtime_context]

    assert emitted(source_factory_of(numbers)) == [StreamRecord(1)]
    assert emitted(source_factory_of(contexts)) == [StreamRecord("the runtime context")]
    assert emitted(source_factory_of(lambda first=5: [first])) == [StreamRecord(5)]


@pytest.mark.parametrize("cut", [0, 1, 5, 6])
def test_a_restored_collection_goes_on_behind_what_was_emitted(cut):
    factory, around = CollectionSourceFactory(range(6)), Surroundings()
    source = around.open(factory())
    if cut:
        source.emit_next(around.output, cut)
    snapshot, again = source.snapshot_state(1), Surroundings()
    assert again.run_source(again.open(factory(), snapshot)) == InputStatus.END_OF_INPUT
    assert around.output.values + again.output.values == list(range(6))


def test_what_is_no_source_is_refused_with_what_would_be_one():
    with pytest.raises(TypeError, match="add_source takes .* got int 7"):
        source_factory_of(7)


def test_an_iterator_of_the_program_is_read_once():
    factory = source_factory_of(number for number in range(3))
    assert factory.why_not_again() is None
    assert [element.value for element in emitted(factory)] == [0, 1, 2]
    assert "cannot be read a second time: <generator ob" in factory.why_not_again()
    with pytest.raises(CannotBeginAgainError, match="give add_source a list, or a function") as caught:
        emitted(factory)
    assert caught.value.can_restart is False


@pytest.mark.parametrize("source", [[0, 1], lambda: iter([0, 1])])
def test_what_can_be_read_again_is(source):
    factory = source_factory_of(source)
    for _ in range(2):
        assert [element.value for element in emitted(factory)] == [0, 1]
        assert factory.why_not_again() is None
