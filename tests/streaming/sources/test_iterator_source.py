"""Sources that are Python iterables."""

import pickle
import threading

import cloudpickle
import pytest
from support.worlds.surroundings import Surroundings

from flinkbuf.streaming.chain.by_reference import CannotBeginAgainError
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.iterator_source import GeneratorSourceOperator
from flinkbuf.streaming.sources.source_factories import CollectionSourceFactory, source_factory_of
from flinkbuf.types.types import Types
from flinkbuf.types.values import StreamRecord, Watermark


def emitted(factory):
    """All that a source emits after it was pickled for its subtask."""
    around = Surroundings()
    around.context.runtime_context = "the runtime context"
    source = around.open(pickle.loads(cloudpickle.dumps(factory))())
    assert around.wait_for_end(source) == InputStatus.END_OF_INPUT
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


# ---- generators that wait


class Waiting:
    """A generator that gives some numbers, then waits until it is let go."""

    def __init__(self, *numbers):
        self.numbers = numbers
        self.is_waiting, self.may_go_on, self.is_closed = (threading.Event() for _ in range(3))
        self.thread = None

    def __call__(self):
        self.thread = threading.current_thread()
        try:
            yield from self.numbers
            self.is_waiting.set()
            assert self.may_go_on.wait(20)
            yield "the last"
        finally:
            self.is_closed.set()

    def operator(self):
        return GeneratorSourceOperator(lambda context: self())


def emit_all_there_is(around, source, count):
    """Turns until so many are emitted."""
    while True:
        status = source.emit_next(around.output, 100)
        if len(around.output.elements) >= count:
            return
        if status == InputStatus.NOTHING_AVAILABLE:
            assert around.mailbox.woken.wait(10), "the source was never woken"
            around.mailbox.woken.clear()


def test_a_generator_that_waits_keeps_its_task_waiting_for_nothing():
    around, numbers = Surroundings(), Waiting(1, 2)
    source = around.open(numbers.operator())
    emit_all_there_is(around, source, 2)
    assert numbers.is_waiting.wait(10)
    assert source.emit_next(around.output, 100) == InputStatus.NOTHING_AVAILABLE
    assert numbers.thread is not threading.current_thread()
    numbers.may_go_on.set()
    assert around.wait_for_end(source) == InputStatus.END_OF_INPUT
    source.close()
    assert around.output.values == [1, 2, "the last"]
    assert not numbers.thread.is_alive()


@pytest.mark.parametrize("emitted_count", [0, 3, 7])
def test_what_was_handed_over_but_not_emitted_is_no_part_of_a_checkpoint(emitted_count):
    around, numbers = Surroundings(), Waiting(*range(7))
    source = around.open(numbers.operator())
    for _ in range(emitted_count):
        emit_one(around, source)
    if emitted_count:
        assert numbers.is_waiting.wait(10)  # all of them were handed over
    snapshot, again = source.snapshot_state(1), Surroundings()
    assert around.output.values == list(range(emitted_count))
    numbers.may_go_on.set()
    source.close()
    numbers.numbers = range(7)
    restored = again.open(numbers.operator(), snapshot)
    assert again.wait_for_end(restored) == InputStatus.END_OF_INPUT
    restored.close()
    assert again.output.values == [*range(emitted_count, 7), "the last"]


def emit_one(around, source):
    before = len(around.output.elements)
    while len(around.output.elements) == before:
        source.emit_next(around.output, 1)


def test_a_checkpoint_while_a_restored_generator_passes_over_keeps_its_place():
    around, numbers = Surroundings(), Waiting(*range(5))
    source = around.open(numbers.operator())
    emit_all_there_is(around, source, 5)
    snapshot = source.snapshot_state(1)
    numbers.may_go_on.set()
    source.close()
    slow = Waiting(0, 1)  # waits behind the second of five
    again = Surroundings()
    restored = again.open(slow.operator(), snapshot)
    assert restored.emit_next(again.output, 100) == InputStatus.NOTHING_AVAILABLE
    assert slow.is_waiting.wait(10)
    restored.snapshot_state(2)
    assert list(restored._position.get()) == [5]
    slow.may_go_on.set()
    restored.close()


def test_cancelling_does_not_wait_for_a_generator_and_says_where_it_is(monkeypatch, caplog):
    monkeypatch.setattr(GeneratorSourceOperator, "patience_s", 0.02)
    around, numbers = Surroundings(), Waiting(1)
    source = around.open(numbers.operator())
    emit_all_there_is(around, source, 1)
    assert numbers.is_waiting.wait(10)
    source.cancel()
    assert source.emit_next(around.output, 100) == InputStatus.NOTHING_AVAILABLE  # it is not at its end
    source.close()
    assert numbers.thread.is_alive() and numbers.thread.daemon
    assert len(caplog.messages) == 1
    assert "goes on after the end of its task, in __call__ (" in caplog.text and __file__ in caplog.text
    numbers.may_go_on.set()
    numbers.thread.join(10)
    assert numbers.is_closed.is_set()
    assert around.output.values == [1]


def test_a_generator_that_never_yields_is_interrupted():
    begun = threading.Event()

    def spins():
        begun.set()
        while True:
            pass
        yield

    around = Surroundings()
    source = around.open(source_factory_of(spins)())
    source.emit_next(around.output, 1)
    assert begun.wait(10)
    source.cancel()
    source.close()
    for thread in [each for each in threading.enumerate() if each.name.endswith("source")]:
        thread.join(20)
        assert not thread.is_alive()


def test_a_generator_at_its_yield_is_closed_on_its_own_thread_before_its_task_has_ended():
    closed_on = []

    def numbers():
        try:
            yield from range(10**9)
        finally:
            closed_on.append(threading.current_thread())

    around = Surroundings()
    source = around.open(source_factory_of(numbers)())
    emit_all_there_is(around, source, 1)
    source.close()
    assert len(closed_on) == 1 and closed_on[0] is not threading.current_thread()
    assert not closed_on[0].is_alive()


def test_what_a_generator_raises_keeps_its_own_traceback():
    def fails():
        yield 1
        raise OSError("the line is dead")

    around = Surroundings()
    source = around.open(source_factory_of(fails)())
    with pytest.raises(OSError, match="the line is dead") as caught:
        around.wait_for_end(source)
    assert caught.traceback[-1].name == "fails"
    assert around.output.values == [1]
    source.close()


def test_a_function_that_gives_no_iterable_says_so_on_the_task():
    around = Surroundings()
    source = around.open(source_factory_of(lambda: 7)())
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        around.wait_for_end(source)
    source.close()


@pytest.mark.parametrize(("is_drain", "status"), [(True, InputStatus.END_OF_INPUT), (False, InputStatus.STOPPED)])
def test_a_stopped_generator_ends_at_what_was_emitted(is_drain, status):
    around = Surroundings()
    source = around.open(source_factory_of(lambda: iter(range(10**9)))())
    emit_all_there_is(around, source, 1)
    source.stop(is_drain)
    before = len(around.output.elements)
    assert source.emit_next(around.output, 100) == status
    assert source.position == before == len(around.output.elements)
    source.close()


def test_what_lies_in_memory_needs_no_thread():
    around = Surroundings()
    source = around.open(source_factory_of([1, 2])())
    assert source.emit_next(around.output, 100) == InputStatus.END_OF_INPUT
    assert around.output.values == [1, 2]


@pytest.mark.parametrize("with_time", [False, True])
def test_a_generator_may_change_what_it_has_yielded(with_time):
    def changes():
        row = {"tags": []}
        for number in range(100):
            row["tags"].append(number)
            yield StreamRecord(row, number) if with_time else row

    elements = emitted(source_factory_of(changes))
    assert [each.value for each in elements] == [{"tags": list(range(n + 1))} for n in range(100)]
    assert [each.timestamp for each in elements] == [n if with_time else None for n in range(100)]


@pytest.mark.parametrize("with_time", [False, True])
def test_what_functions_change_is_as_it_was_in_the_list_of_the_program(with_time):
    lock = threading.Lock()
    rows = [{"tags": [number], "lock": lock} if number == 3 else {"tags": [number]} for number in range(4)]
    elements = [StreamRecord(row, 7) for row in rows] if with_time else rows
    given = [each.value for each in emitted(source_factory_of(elements))]
    assert given == rows
    given[0]["tags"].append("changed")
    assert rows[0] == {"tags": [0]}
    assert given[3] is rows[3]  # a lock cannot be copied


def test_what_cannot_be_copied_is_handed_over_as_it_is():
    lock = threading.Lock()
    around = Surroundings()
    source = around.open(GeneratorSourceOperator(lambda context: iter([lock])))
    around.wait_for_end(source)
    source.close()
    assert around.output.values == [lock]
