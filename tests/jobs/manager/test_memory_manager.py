"""Managed memory: all or nothing, never more than the budget, and everything comes back."""

import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkbuf.jobs.manager.memory_manager import MemoryAllocationError, MemoryManager, OperatorMemory

PAGE = 4096


def test_pages_are_zeroed_writable_and_of_one_size():
    memory = MemoryManager(4 * PAGE, PAGE)
    page, other = memory.allocate_pages("a", 2)
    assert bytes(page) == bytes(PAGE)
    page[:3] = b"abc"
    assert bytes(other) == bytes(PAGE)


def test_all_or_nothing():
    memory = MemoryManager(4 * PAGE, PAGE)
    memory.allocate_pages("a", 3)
    with pytest.raises(MemoryAllocationError, match="2 pages of 4096 bytes, but 4096 of 16384 bytes are left"):
        memory.allocate_pages("b", 2)
    assert memory.available_bytes == PAGE
    assert memory.owners() == ["a"]


def test_an_allocation_error_is_a_memory_error():
    with pytest.raises(MemoryError):
        MemoryManager(0).reserve("a", 1)


def test_what_is_given_back_is_for_others():
    memory = MemoryManager(4 * PAGE, PAGE)
    pages = memory.allocate_pages("a", 3)
    memory.release_pages("a", pages[:2])
    memory.reserve("b", 3 * PAGE)
    memory.release_reserved("b", PAGE)
    assert memory.available_bytes == PAGE
    with pytest.raises(RuntimeError, match="not given back, by a, b"):
        memory.verify_empty()
    assert memory.release_all("a") == PAGE
    assert memory.release_all("b") == 2 * PAGE
    assert memory.release_all("b") == 0
    memory.verify_empty()


def test_a_part_leaves_something_for_others():
    memory = MemoryManager(4 * PAGE, PAGE)
    first, second = OperatorMemory(memory, "a"), OperatorMemory(memory, "b")
    assert first.reserve_part(3 * PAGE) == 2 * PAGE  # half of what is left
    assert second.reserve_part(100) == 100
    assert second.reserve_part(PAGE) == PAGE - 50
    first.release_reserved(2 * PAGE)
    second.release_reserved(PAGE + 50)
    memory.verify_empty()
    memory.reserve("a", 4 * PAGE)
    assert second.reserve_part(1) == 0
    assert memory.owners() == ["a"]


def test_nobody_gives_back_what_is_not_theirs():
    memory = MemoryManager(4 * PAGE, PAGE)
    pages = memory.allocate_pages("a", 1)
    with pytest.raises(ValueError, match="does not hold"):
        memory.release_pages("b", pages)
    memory.release_pages("a", pages)
    with pytest.raises(ValueError, match="does not hold"):
        memory.release_pages("a", pages)
    with pytest.raises(ValueError, match="cannot give back"):
        memory.release_reserved("a", 1)


@pytest.mark.parametrize("page_size", [0, 1000, 2048, 5000])
def test_a_page_has_a_size_that_memory_has(page_size):
    with pytest.raises(ValueError, match="power of two from 4096"):
        MemoryManager(1 << 20, page_size)


@pytest.mark.parametrize("call", [lambda each: each.allocate_pages("a", -1), lambda each: each.reserve("a", -1)])
def test_nothing_negative(call):
    with pytest.raises(ValueError, match="must not be negative"):
        call(MemoryManager(1 << 20))


def test_an_operator_owns_what_it_asks_for():
    memory = MemoryManager(4 * PAGE, PAGE)
    mine = OperatorMemory(memory, ("attempt", "operator"))
    pages = mine.allocate_pages(2)
    mine.reserve(PAGE)
    assert (mine.page_size, mine.available_bytes) == (PAGE, PAGE)
    mine.release_reserved(PAGE)
    mine.release_pages(pages[:1])
    assert memory.release_all(("attempt", "operator")) == PAGE


def test_threads_never_have_more_than_there_is():
    memory = MemoryManager(64 * PAGE, PAGE)
    most = []

    def work(owner):
        for _ in range(300):
            try:
                pages = memory.allocate_pages(owner, 13)
            except MemoryAllocationError:
                continue
            most.append(memory.available_bytes)
            memory.release_pages(owner, pages)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(most) >= 0
    memory.verify_empty()


class Budget(RuleBasedStateMachine):
    """Against a plain account of who has what."""

    def __init__(self):
        super().__init__()
        self.memory = MemoryManager(10 * PAGE, PAGE)
        self.pages = {owner: [] for owner in "abc"}
        self.reserved = dict.fromkeys("abc", 0)

    @property
    def used(self):
        return sum(map(len, self.pages.values())) * PAGE + sum(self.reserved.values())

    @rule(owner=st.sampled_from("abc"), count=st.integers(0, 12))
    def allocate(self, owner, count):
        fits = self.used + count * PAGE <= 10 * PAGE
        try:
            self.pages[owner] += self.memory.allocate_pages(owner, count)
        except MemoryAllocationError:
            assert not fits
        else:
            assert fits

    @rule(owner=st.sampled_from("abc"), size=st.integers(0, 5 * PAGE))
    def reserve(self, owner, size):
        fits = self.used + size <= 10 * PAGE
        try:
            self.memory.reserve(owner, size)
        except MemoryAllocationError:
            assert not fits
        else:
            assert fits
            self.reserved[owner] += size

    @rule(owner=st.sampled_from("abc"), count=st.integers(0, 4))
    def give_back(self, owner, count):
        given, self.pages[owner] = self.pages[owner][:count], self.pages[owner][count:]
        self.memory.release_pages(owner, given)

    @rule(owner=st.sampled_from("abc"))
    def end(self, owner):
        expected = len(self.pages[owner]) * PAGE + self.reserved[owner]
        assert self.memory.release_all(owner) == expected
        self.pages[owner], self.reserved[owner] = [], 0

    @invariant()
    def books_agree(self):
        assert self.memory.available_bytes == 10 * PAGE - self.used
        assert self.memory.is_empty == (self.used == 0)
        assert set(self.memory.owners()) == {owner for owner in "abc" if self.pages[owner] or self.reserved[owner]}


Budget.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBudget = Budget.TestCase
