"""Blocking partitions: what is complete, what is let go when, and what has to be written again.

Flink: JobMasterPartitionTrackerImplTest, RegionPartitionGroupReleaseStrategyTest.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.master_world import JOB, edge, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.scheduler.partition_tracker import PartitionTracker
from flinkbuf.runtime.scheduler.regions import PipelinedRegions


def blocking(source, target, **fields):
    return edge(source, target, partition_type="BLOCKING", **fields)


def tracker_of(widths, *edges):
    vertices = tuple(vertex(chr(97 + number), width) for number, width in enumerate(widths))
    regions = PipelinedRegions(JobPlan(JOB, "tracked", vertices, edges))
    return PartitionTracker(regions), regions.region_of


def finish(tracker, subtask, manager_id="m", indexes=(0,)):
    return [each.id for each in tracker.finished(subtask, manager_id, {at: name(subtask, at) for at in indexes})]


def name(subtask, index=0):
    return f"{subtask}.{index}"


def test_a_region_can_begin_when_all_it_reads_is_complete():
    tracker, region_of = tracker_of([2, 2], blocking(0, 1))
    readers = [region_of[1, number] for number in range(2)]
    assert [tracker.has_all(each) for each in readers] == [False, False]
    finish(tracker, (0, 0))
    assert [tracker.has_all(each) for each in readers] == [False, False]
    finish(tracker, (0, 1))
    assert [tracker.has_all(each) for each in readers] == [True, True]


def test_pointwise_readers_wait_for_their_own_only():
    tracker, region_of = tracker_of([2, 4], blocking(0, 1, is_pointwise=True))
    finish(tracker, (0, 1))
    assert [tracker.has_all(region_of[1, number]) for number in range(4)] == [False, False, True, True]


def test_partitions_go_when_all_who_read_them_have_finished():
    tracker, _ = tracker_of([2, 2], blocking(0, 1))
    for number in range(2):
        assert finish(tracker, (0, number)) == []
    assert finish(tracker, (1, 0), indexes=()) == []
    assert finish(tracker, (1, 1), indexes=()) == [name((0, 0)), name((0, 1))]
    assert tracker.kept == []


def test_a_reader_has_finished_when_all_of_its_region_have():
    streams = edge(1, 2, is_pointwise=True)
    tracker, _ = tracker_of([1, 1, 1], blocking(0, 1), streams)
    finish(tracker, (0, 0))
    assert finish(tracker, (1, 0), indexes=(0,)) == [], "what it streams to may fail, and both begin again"
    assert finish(tracker, (2, 0), indexes=()) == [name((0, 0))]


def test_what_is_written_again_counts_when_it_is_complete_again():
    tracker, region_of = tracker_of([1, 2], blocking(0, 1))
    finish(tracker, (0, 0))
    finish(tracker, (1, 0), indexes=())
    tracker.begins_again((0, 0))
    tracker.begins_again((1, 0))
    tracker.begins_again((1, 1))  # that had not finished
    assert not tracker.has_all(region_of[1, 1]) and tracker.kept == []
    tracker.finished((0, 0), "m", {0: "again"})
    assert tracker.has_all(region_of[1, 0]) and [each.id for each in tracker.kept] == ["again"]
    assert finish(tracker, (1, 0), indexes=()) == []
    assert finish(tracker, (1, 1), indexes=()) == ["again"]


def test_a_lost_manager_takes_along_what_it_kept():
    tracker, region_of = tracker_of([2, 1], blocking(0, 1))
    finish(tracker, (0, 0), "m0")
    finish(tracker, (0, 1), "m1")
    tracker.lose_manager("m1")
    assert not tracker.has_all(region_of[1, 0])
    assert [each.id for each in tracker.kept] == [name((0, 0))]
    assert tracker.wanted_again(lambda region: False) == [(0, 1)]
    assert tracker.wanted_again(lambda region: True) == [], "who reads it may have read all that it needs"


def test_nobody_wants_what_all_have_read():
    tracker, _ = tracker_of([1, 1, 1], blocking(0, 1), blocking(1, 2))
    finish(tracker, (0, 0), "m0")
    assert finish(tracker, (1, 0), "m1") == [name((0, 0))]
    tracker.lose_manager("m0")
    assert tracker.wanted_again(lambda region: False) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_partition_that_cannot_be_read_is_lost(known):
    tracker, _ = tracker_of([1, 1], blocking(0, 1))
    finish(tracker, (0, 0))
    assert tracker.lose(name((0, 0)) if known else "") is known
    assert tracker.is_there(((0, 0), 0)) is not known
    assert not tracker.lose(name((0, 0))) or not known


def test_a_thousand_who_read_from_a_thousand_share_one_group():
    """Neither memory nor time grows with their pairs."""
    tracker, region_of = tracker_of([1000, 1000], blocking(0, 1))
    assert len(tracker._regions.groups) == 1
    for number in range(1000):
        finish(tracker, (0, number))
    assert tracker.has_all(region_of[1, 999])
    assert sum(len(finish(tracker, (1, number), indexes=())) for number in range(1000)) == 1000


def committing(widths, at, *edges):
    vertices = [vertex(chr(97 + number), width) for number, width in enumerate(widths)]
    vertices[at] = replace(vertices[at], is_committer=True)
    regions = PipelinedRegions(JobPlan(JOB, "tracked", tuple(vertices), edges))
    return PartitionTracker(regions), regions.region_of


def test_a_committer_waits_for_the_regions_of_all_writers():
    streams = edge(0, 2, partition_index=1, is_pointwise=True)
    tracker, region_of = committing([2, 2, 2], 1, blocking(0, 1, is_pointwise=True), streams)
    for key in [(0, 0), (2, 0), (0, 1)]:
        finish(tracker, key, indexes=(0,) if key[0] == 0 else ())
        assert not tracker.has_all(region_of[1, 0]), "somebody runs who may fail, and what he prepares with him"
    finish(tracker, (2, 1), indexes=())
    assert tracker.has_all(region_of[1, 0]) and tracker.has_all(region_of[1, 1])
    tracker.begins_again((0, 1))
    assert not tracker.has_all(region_of[1, 0])


def test_what_is_prepared_again_for_a_committer_that_has_finished_goes_at_once():
    tracker, _ = committing([1, 1, 1], 1, blocking(0, 1), blocking(0, 2, partition_index=1))
    finish(tracker, (0, 0), indexes=(0, 1))
    assert finish(tracker, (1, 0), indexes=()) == [name((0, 0))]
    tracker.begins_again((0, 0))
    assert finish(tracker, (0, 0), indexes=(0, 1)) == [name((0, 0))]
    assert [each.id for each in tracker.kept] == [name((0, 0), 1)]


@given(st.data())
def test_counts_are_right_after_any_history(data):
    """Whatever ends, begins again and is lost in whatever order: it is as if counted anew."""
    edges = [blocking(0, 1), blocking(0, 2, partition_index=1, is_pointwise=True), blocking(1, 2, gate_index=1)]
    tracker, region_of = tracker_of([2, 2, 2], *edges)
    subtasks = list(region_of)
    finished, kept = set(), set()
    outputs = {0: (0, 1), 1: (0,), 2: ()}
    readers = {(0, 0): lambda a: {(1, 0), (1, 1)}, (0, 1): lambda a: {(2, a)}, (1, 0): lambda a: {(2, 0), (2, 1)}}
    for _ in range(data.draw(st.integers(0, 30))):
        subtask = data.draw(st.sampled_from(subtasks))
        what = data.draw(st.sampled_from(["end", "again", "lose"]))
        if what == "end" and subtask not in finished:
            finished.add(subtask)
            wanted = {at for at in outputs[subtask[0]] if not readers[subtask[0], at](subtask[1]) <= finished}
            kept |= {(subtask, at) for at in wanted}
            finish(tracker, subtask, indexes=outputs[subtask[0]])
            for writer, at in list(kept):  # let go by whole groups
                group = [writer] if at == 1 else [(writer[0], 0), (writer[0], 1)]
                group_readers = {reader for one in group for reader in readers[writer[0], at](one[1])}
                if group_readers <= finished and subtask in group_readers:
                    kept -= {(one, at) for one in group}
        elif what == "again":
            finished.discard(subtask)
            kept -= {(subtask, at) for at in outputs[subtask[0]]}
            tracker.begins_again(subtask)
        elif what == "lose" and kept:
            writer, at = data.draw(st.sampled_from(sorted(kept)))
            kept.discard((writer, at))
            assert tracker.lose(name(writer, at))
    assert {each.key for each in tracker.kept} == kept
    for subtask in subtasks:
        needed = {
            (writer, at)
            for writer in subtasks
            for at in outputs[writer[0]]
            if subtask in readers[writer[0], at](writer[1])
        }
        assert tracker.has_all(region_of[subtask]) is (needed <= kept)
