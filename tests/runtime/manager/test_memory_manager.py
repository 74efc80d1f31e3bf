"""Managed memory: never more than the budget, something is left for others, and everything comes back."""

import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkbuf.runtime.manager.memory_manager import MemoryManager, OperatorMemory

TOTAL = 16384


def test_a_part_leaves_something_for_others():
    memory = MemoryManager(TOTAL)
    first, second = OperatorMemory(memory, "a"), OperatorMemory(memory, "b")
    assert first.reserve_part(12288) == 8192  # half of what is left
    assert second.reserve_part(100) == 100
    assert second.reserve_part(4096) == 4046
    assert memory.owners() == ["a", "b"]
    first.release_reserved(8192)
    assert memory.owners() == ["b"]
    second.release_reserved(4146)
    assert memory.is_empty and memory.available_bytes == TOTAL
    assert MemoryManager(1).reserve_part("a", 1) == 0


def test_an_owner_gives_all_back_at_its_end():
    memory = MemoryManager(TOTAL)
    for _ in range(2):
        memory.reserve_part("a", 1000)
    memory.reserve_part("b", 10)
    memory.release_reserved("a", 500)
    assert (memory.release_all("a"), memory.release_all("a"), memory.owners()) == (1500, 0, ["b"])


def test_nobody_gives_back_what_is_not_theirs():
    memory = MemoryManager(TOTAL)
    memory.reserve_part("a", 5)
    for owner, size in (("b", 1), ("a", 6), ("a", -1)):
        with pytest.raises(ValueError, match="cannot give back"):
            memory.release_reserved(owner, size)
    assert memory.available_bytes == TOTAL - 5


def test_no_budget_is_negative():
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        MemoryManager(-1)


def test_threads_never_have_more_than_there_is():
    memory = MemoryManager(TOTAL)
    most = []

    def work(owner):
        for _ in range(300):
            size = memory.reserve_part(owner, 5000)
            most.append(memory.available_bytes)
            memory.release_reserved(owner, size)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(most) >= 0 and memory.is_empty


class Budget(RuleBasedStateMachine):
    """Against a plain account of who has what."""

    def __init__(self):
        super().__init__()
        self.memory = MemoryManager(TOTAL)
        self.reserved = dict.fromkeys("abc", 0)

    @property
    def left(self):
        return TOTAL - sum(self.reserved.values())

    @rule(owner=st.sampled_from("abc"), size=st.integers(0, 20000))
    def reserve(self, owner, size):
        found = self.memory.reserve_part(owner, size)
        assert found == min(size, self.left // 2)
        self.reserved[owner] += found

    @rule(owner=st.sampled_from("abc"), share=st.floats(0, 1))
    def give_back(self, owner, share):
        size = int(self.reserved[owner] * share)
        self.memory.release_reserved(owner, size)
        self.reserved[owner] -= size

    @rule(owner=st.sampled_from("abc"))
    def end(self, owner):
        assert self.memory.release_all(owner) == self.reserved[owner]
        self.reserved[owner] = 0

    @invariant()
    def books_agree(self):
        assert self.memory.available_bytes == self.left
        assert self.memory.is_empty == (self.left == TOTAL)
        assert set(self.memory.owners()) == {owner for owner in "abc" if self.reserved[owner]}


Budget.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBudget = Budget.TestCase
