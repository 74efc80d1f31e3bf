"""What is kept of complete checkpoints. Flink: CompletedCheckpointStoreTest, SharedStateRegistryTest."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.worlds.checkpoint_world import DIRECTORY, file, keyed, shared, state

from flinkbuf.checkpoints.handles import CheckpointMetadata, SharedFile, StateHandle, VertexInCheckpoint
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.checkpoint.completed_checkpoints import CompletedCheckpoint, CompletedCheckpoints
from flinkbuf.runtime.checkpoint.shared_files import SharedFiles
from flinkbuf.runtime.protocol.job_status import JobStatus

RETAIN = "RETAIN_ON_CANCELLATION"


def checkpoint(number, *files):
    subtask = state("a", keyed=[keyed(0, 127, files=files)])
    vertex = VertexInCheckpoint("0" * 32, "v", 1, 128, (), (subtask,))
    return CompletedCheckpoint(CheckpointMetadata(number, 0, "aa" * 16, "job", False, (vertex,)), f"/chk-{number}")


def complete(store, number, *files):
    store.shared.use(number, shared(*files))
    return store.add(checkpoint(number, *files))


def gone(discards):
    """(number, its directory, shared files) of what is to be deleted."""
    return [
        (each.checkpoint_id, each.location, sorted(h.path.split("/")[-1] for h in each.handles)) for each in discards
    ]


def test_the_newest_are_kept():
    store = CompletedCheckpoints(2, RETAIN)
    assert store.latest is None
    assert [gone(complete(store, number)) for number in (1, 2, 3, 4)] == [
        [],
        [],
        [(1, "/chk-1", [])],
        [(2, "/chk-2", [])],
    ]
    assert (store.ids, store.latest.id) == ((3, 4), 4)
    assert [each.id for each in store.older] == [3]


def test_one_that_comes_late_is_not_the_latest():
    store = CompletedCheckpoints(2, RETAIN)
    complete(store, 3)
    complete(store, 2)
    assert (store.ids, store.latest.id) == ((2, 3), 3)
    assert gone(complete(store, 1)) == [(1, "/chk-1", [])]


def test_a_file_goes_with_the_last_checkpoint_that_uses_it():
    store = CompletedCheckpoints(1, RETAIN)
    complete(store, 1, "a", "b")
    assert gone(complete(store, 2, "b", "c")) == [(1, "/chk-1", ["a"])]
    assert gone(complete(store, 3, "d")) == [(2, "/chk-2", ["b", "c"])]


def test_a_file_that_one_under_way_uses_stays():
    store = CompletedCheckpoints(1, RETAIN)
    complete(store, 1, "a")
    store.shared.use(3, shared("a", "new"))
    assert gone(complete(store, 2)) == [(1, "/chk-1", [])]
    assert [each.path for each in store.shared.release(3)] == [f"{DIRECTORY}/shared/a", f"{DIRECTORY}/shared/new"]


@pytest.mark.parametrize("status", [JobStatus.SUSPENDED, JobStatus.CANCELED, JobStatus.FAILED])
def test_what_is_to_be_kept_at_the_end_is(status):
    store = CompletedCheckpoints(1, RETAIN)
    complete(store, 1, "a")
    assert store.end(status) == []


def test_all_of_it_goes_at_the_end_of_a_job_that_has_finished():
    store = CompletedCheckpoints(2, RETAIN)
    complete(store, 1, "a")
    complete(store, 2, "a", "b")
    assert gone(store.end(JobStatus.FINISHED)) == [(1, "/chk-1", []), (2, "/chk-2", ["a", "b"])]


def test_one_that_was_claimed_counts_among_those_that_are_kept():
    store = CompletedCheckpoints(2, RETAIN)
    store.begin_with(RestoredCheckpoint(checkpoint(5, "a").metadata, "/old", "CLAIM"))
    assert (store.latest.id, store.needs_full) == (5, False)
    complete(store, 6, "a")
    assert gone(complete(store, 7)) == [(5, "/old", [])]


def test_one_that_was_not_is_left_when_there_is_another():
    store = CompletedCheckpoints(1, RETAIN)
    store.begin_with(RestoredCheckpoint(checkpoint(5, "a").metadata, "/old"))
    assert (store.latest.id, store.needs_full, store.ids) == (5, True, ())
    assert gone(complete(store, 6, "a")) == []
    assert gone(complete(store, 7)) == [(6, "/chk-6", [])], "whoever owns it still needs a"
    assert not store.needs_full


def test_what_lies_in_the_handle_itself_is_no_file():
    files = SharedFiles()
    files.use(1, [SharedFile("x", StateHandle(3, data=b"abc"))])
    assert files.release(1) == ()
    assert files.unused([SharedFile("x", StateHandle(3, data=b"abc"))]) == ()


def test_naming_a_file_twice_in_one_checkpoint_counts_once():
    files = SharedFiles()
    files.use(1, shared("a", "a"))
    files.use(1, shared("a"))
    files.use(2, shared("a"))
    assert files.release(1) == ()
    assert files.release(2) == (file("shared/a"),)


NAMES = st.sets(st.sampled_from("abcdef"), max_size=4)


class AnyOrder(RuleBasedStateMachine):
    """Checkpoints come, fail and go: no file is deleted that one needs, and none stays that nobody needs."""

    def __init__(self):
        super().__init__()
        self.store = CompletedCheckpoints(2, RETAIN)
        self.number = 0
        self.under_way = {}
        self.kept = {}
        self.files = set()

    def delete(self, handles):
        for handle in handles:
            assert handle.path in self.files, "deleted twice"
            self.files.remove(handle.path)

    def path(self, name):
        return f"{DIRECTORY}/shared/{name}"

    @rule(names=NAMES, reused=st.booleans())
    def begin(self, names, reused):
        """New files have new names; a part of those of the latest complete one is referred to again."""
        self.number += 1
        files = {f"{name}{self.number}" for name in names}
        if reused and self.kept:
            files |= set(sorted(self.kept[max(self.kept)])[::2])
        self.files |= {self.path(each) for each in files}
        self.under_way[self.number] = files
        self.store.shared.use(self.number, shared(*sorted(files)))

    @rule(data=st.data())
    def complete(self, data):
        if not self.under_way:
            return
        number = data.draw(st.sampled_from(sorted(self.under_way)))
        files = self.under_way.pop(number)
        self.kept[number] = files
        for discard in self.store.add(checkpoint(number, *files)):
            del self.kept[discard.checkpoint_id]
            self.delete(discard.handles)

    @rule(data=st.data())
    def fail(self, data):
        if self.under_way:
            number = data.draw(st.sampled_from(sorted(self.under_way)))
            del self.under_way[number]
            self.delete(self.store.shared.release(number))

    @invariant()
    def exactly_what_is_needed_is_there(self):
        needed = {self.path(each) for files in (*self.kept.values(), *self.under_way.values()) for each in files}
        assert self.files == needed
        assert self.store.ids == tuple(sorted(self.kept))


TestAnyOrder = AnyOrder.TestCase
