"""What an iterator gives on its thread comes to its task in order, bounded, and not a thread switch each."""

import threading

import pytest

from flinkbuf._core.operators.iterator_handover import IteratorHandover


class Reader:
    """A thread that fills, and what its task is woken by."""

    def __init__(self, iterator, capacity=8192, skipped=0):
        self.woken = threading.Event()
        self.wakes = 0
        self.handover = IteratorHandover(self.wake, capacity)
        self.thread = threading.Thread(target=self.fill, args=(iterator, skipped), daemon=True)
        self.thread.start()

    def wake(self):
        self.wakes += 1
        self.woken.set()

    def fill(self, iterator, skipped):
        error = None
        try:
            self.handover.fill(iterator, skipped)
        except BaseException as raised:
            error = raised
        self.handover.end(error)

    def take_some(self):
        while not (taken := self.handover.take_all()) and not self.handover.has_ended:
            assert self.woken.wait(10), "nothing came"
            self.woken.clear()
        return taken

    def rest(self):
        taken = []
        while (some := self.take_some()) or not self.handover.has_ended:
            taken += some
        return taken

    def join(self):
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("count", [0, 1, 10, 50_000])
@pytest.mark.parametrize("capacity", [1, 100, 8192])
def test_everything_comes_in_order_and_then_the_end(count, capacity):
    reader = Reader(iter(range(count)), capacity)
    assert reader.rest() == list(range(count))
    reader.join()


def test_what_was_emitted_before_a_restore_is_passed_over():
    reader = Reader(iter(range(10)), skipped=7)
    assert reader.rest() == [7, 8, 9]
    reader.join()


def test_an_iterator_waits_while_so_many_were_not_taken():
    given, is_full = [], threading.Event()

    def numbers():
        for number in range(10):
            given.append(number)
            if number == 4:
                is_full.set()
            yield number

    reader = Reader(numbers(), capacity=4)
    assert not is_full.wait(0.05)
    assert given == [0, 1, 2, 3]
    assert reader.rest() == list(range(10))
    reader.join()


def test_a_slow_iterator_is_not_far_ahead_of_its_task():
    """Elements that take long to make may be large: no thousands of them wait."""
    made = []

    def slow():
        for number in range(1_000):
            pause.wait(0.006)
            made.append(number)
            yield number

    pause = threading.Event()  # never set
    reader = Reader(slow())
    assert reader.take_some()
    threading.Event().wait(0.1)
    before = len(made)
    threading.Event().wait(0.05)
    assert len(made) == before <= 12
    reader.handover.close()
    reader.join()


def test_the_task_is_woken_only_if_it_has_found_nothing():
    may_go_on = threading.Event()

    def numbers():
        yield from range(3)
        may_go_on.wait(10)
        yield 3

    reader = Reader(numbers())
    while len(taken := reader.take_some()) == 0:
        pass
    taken += [] if len(taken) == 3 else reader.take_some()
    wakes = reader.wakes
    assert reader.handover.take_all() == []
    may_go_on.set()
    assert reader.rest()[-1] == 3
    assert reader.wakes <= wakes + 2  # of the element, and of the end
    reader.join()


def test_an_error_comes_behind_all_elements_before_it():
    def fails():
        yield 1
        raise OSError("the line is dead")

    reader = Reader(fails())
    reader.join()
    assert reader.handover.take_all() == [1]
    with pytest.raises(OSError, match="the line is dead") as caught:
        reader.handover.take_all()
    assert caught.traceback[-1].name == "fails"
    assert reader.handover.take_all() == []


def test_closing_says_whether_the_iterator_runs():
    asked, may_return = threading.Event(), threading.Event()

    def waits():
        yield 1
        asked.set()
        may_return.wait(10)
        yield 2

    at_rest = Reader(iter(range(10)), capacity=1)
    running = Reader(waits())
    assert asked.wait(10)
    assert running.handover.close()
    may_return.set()
    running.join()
    while not at_rest.woken.is_set() and at_rest.handover.close():
        pass
    assert not at_rest.handover.close()
    at_rest.join()
