"""Jobs that take checkpoints, through crashes of everything: each record counts once, whatever happens."""

import errno
from collections import Counter

import pytest

from flinkbuf.runtime.protocol.job_status import JobStatus
from simulation.checkpoints.checkpoint_run import CheckpointRun
from simulation.checkpoints.sim_files import SimFiles
from simulation.replay import FailedRun, run_checkpoints

CLAIMS = 500  # of so many seeds, one has a job that claims a savepoint and deletes it: one of 20 does


def test_every_seed_holds_what_must_hold(seeds):
    ends, seen = Counter(), Counter()
    for seed in seeds:
        story = run_checkpoints(seed)
        ends[story.world.end.status if story.world.end else None] += 1
        seen.update(what_happened(story))
    if len(seeds) >= 200:  # the world is neither too kind nor too cruel
        assert ends[JobStatus.FINISHED] > len(seeds) // 4
        few = {what: count for what, count in seen.items() if count < len(seeds) // 50}
        assert not few, f"hardly ever: {few}"


def what_happened(story):
    """What one run has shown."""
    books = [world.invariants for world in story.worlds]
    return {
        "began again from a checkpoint": any(each.restored for each in books),
        "a checkpoint failed": any(each.failed for each in books),
        "a driver crashed": any(world.has_crashed for world in story.worlds),
        "two drivers at a time": any(world.has_lost_lease for world in story.worlds),
        "taken over with a checkpoint": any(world.initial and world.driver.epoch > 1 for world in story.worlds),
        "the disk failed": any(driver.operations.fault_count for driver in story.drivers),
        "stopped with a savepoint": any(each.stopped_with for each in books),
        "begun from a savepoint": any(
            world.initial is not None and world.initial.metadata.is_savepoint for world in story.worlds
        ),
        "records between tasks": any(
            state.input_channels or state.output_channels for each in books for _, state, _ in each.parts.values()
        ),
        "shared files": any(path for each in books for path in each.known if "/shared/" in path),
        "all output committed": bool(story.ledger.committed),
    }


def test_a_seed_tells_the_same_story_twice():
    def story_of(seed):
        story = CheckpointRun(seed, keeps_story=True)
        story.run()
        return "\n".join(story.lines())

    assert [story_of(seed) for seed in (3, 17)] == [story_of(seed) for seed in (3, 17)]


@pytest.mark.parametrize("operation", ["delete", "delete_tree"])  # of its metadata, of the rest
def test_a_claimed_savepoint_may_be_left_where_the_disk_does_not_delete_it(operation, monkeypatch):
    spared = spare_claimed_savepoints(monkeypatch, operation, is_told=True)
    for seed in range(CLAIMS):
        run_checkpoints(seed)
        if spared:
            return
    pytest.fail(f"none of {CLAIMS} seeds has a job that claims a savepoint and deletes it")


def test_a_claimed_savepoint_that_is_not_deleted_is_found(monkeypatch):
    spared = spare_claimed_savepoints(monkeypatch, "delete_tree", is_told=False)
    with pytest.raises(FailedRun, match="files are left that nobody needs"):
        for seed in range(CLAIMS):
            run_checkpoints(seed)
    assert spared


def spare_claimed_savepoints(monkeypatch, operation, is_told):
    """Let nothing be deleted of them; return what was to be."""
    spared = []
    delete = getattr(SimFiles, operation)

    def delete_others(self, path):
        world = self._operations.driver.world
        initial = None if world is None else world.initial
        if initial is None or not initial.metadata.is_savepoint or not path.startswith(initial.location):
            delete(self, path)
            return
        spared.append(path)
        if is_told:
            self._operations.fault_count += 1
            raise OSError(errno.EIO, "the disk failed")

    monkeypatch.setattr(SimFiles, operation, delete_others)
    return spared
