"""Regions, and what starts again with a subtask.

Flink: PipelinedRegionComputeUtilTest, RestartPipelinedRegionFailoverStrategyTest.
"""

from collections import defaultdict
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st
from support.worlds.master_world import JOB, edge, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.scheduler.regions import PipelinedRegions


def plan(widths, *edges):
    return JobPlan(JOB, "regions", tuple(vertex(chr(97 + number), width) for number, width in enumerate(widths)), edges)


def everything(regions):
    return sorted(subtask for members in regions.members for subtask in members)


def test_isolated_subtasks_are_regions_of_their_own():
    assert PipelinedRegions(plan([2, 1])).members == [[(0, 0)], [(0, 1)], [(1, 0)]]


def test_pointwise_pairs_and_all_to_all():
    pairs = edge(0, 1, is_pointwise=True)
    assert PipelinedRegions(plan([2, 2], pairs)).members == [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]
    assert len(PipelinedRegions(plan([2, 2], edge(0, 1))).members) == 1
    assert len(PipelinedRegions(plan([2, 2, 1], pairs, edge(1, 2))).members) == 1
    rescaled = PipelinedRegions(plan([2, 5], pairs))
    assert rescaled.members == [[(0, 0), (1, 0), (1, 1), (1, 2)], [(0, 1), (1, 3), (1, 4)]]


def test_a_diamond_is_one_region():
    diamond = [edge(0, 1, is_pointwise=True), edge(0, 2, is_pointwise=True), edge(1, 3, is_pointwise=True)]
    diamond.append(edge(2, 3, is_pointwise=True, gate_index=1))
    assert len(PipelinedRegions(plan([3, 3, 3, 3], *diamond)).members) == 3


def blocking(source, target, **fields):
    return edge(source, target, partition_type="BLOCKING", **fields)


def test_a_blocking_edge_parts_regions_and_consumers_start_again_with_producers():
    regions = PipelinedRegions(plan([2, 2, 2], blocking(0, 1), blocking(1, 2, is_pointwise=True)))
    assert len(regions.members) == 6
    assert regions.to_restart([(2, 1)], lambda partition: True) == [(2, 1)]
    assert regions.to_restart([(1, 0)], lambda partition: True) == [(1, 0), (2, 0)]
    assert regions.to_restart([(0, 0)], lambda partition: True) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_producers_of_lost_partitions_start_again_too():
    regions = PipelinedRegions(plan([2, 2, 2], blocking(0, 1, is_pointwise=True), blocking(1, 2, is_pointwise=True)))
    assert regions.to_restart([(2, 0)], lambda partition: False) == [(0, 0), (1, 0), (2, 0)]
    lost = regions.to_restart([(2, 0)], lambda partition: partition.producer != (1, 0))
    assert lost == [(1, 0), (2, 0)], "what (1, 0) itself reads is still there"
    [number] = regions.read_by[regions.region_of[2, 0]]
    assert [each.partition_index for each in regions.groups[number].partitions] == [0]


def test_consumers_of_a_producer_that_starts_again_do_too():
    """Flink: testRegionFailoverForMultipleVerticesRegions and its kin."""
    regions = PipelinedRegions(plan([1, 2], blocking(0, 1)))
    assert regions.to_restart([(1, 0)], lambda partition: False) == [(0, 0), (1, 0), (1, 1)]


def committing(widths, at, *edges):
    job = plan(widths, *edges)
    vertices = (replace(each, is_committer=index == at) for index, each in enumerate(job.vertices))
    return PipelinedRegions(replace(job, vertices=tuple(vertices)))


def test_committers_that_have_all_finished_and_their_writers_do_not_start_again():
    pairs = blocking(1, 2, is_pointwise=True)
    regions = committing([1, 2, 2, 1], 2, blocking(0, 1), pairs, blocking(0, 3, partition_index=1))
    finished = {(0, 0), (1, 0), (1, 1), (2, 0)}
    assert regions.settled(finished.__contains__) == set(), "one of them has not finished"
    finished.add((2, 1))
    settled = regions.settled(finished.__contains__)
    assert settled == {regions.region_of[key] for key in [(1, 0), (1, 1), (2, 0), (2, 1)]}
    assert regions.to_restart([(3, 0)], lambda partition: False, settled) == [(0, 0), (3, 0)]
    assert regions.prepared_by == {2: {regions.region_of[1, 0], regions.region_of[1, 1]}}
    assert regions.committers == {regions.region_of[2, number]: 2 for number in range(2)}


def test_a_writer_whose_other_readers_wait_starts_again_without_its_committer():
    regions = committing([1, 1, 1], 1, blocking(0, 1), blocking(0, 2, partition_index=1))
    settled = regions.settled({(0, 0), (1, 0)}.__contains__)
    assert settled == {regions.region_of[1, 0]}
    assert regions.to_restart([(2, 0)], lambda partition: False, settled) == [(0, 0), (2, 0)]


plans = st.lists(st.integers(1, 4), min_size=1, max_size=5).flatmap(
    lambda widths: st.tuples(
        st.just(widths),
        st.lists(
            st.tuples(
                st.integers(0, len(widths) - 1), st.integers(0, len(widths) - 1), st.booleans(), st.booleans()
            ).filter(lambda row: row[0] < row[1]),
            max_size=6,
        ),
    )
)


@given(plans)
def test_regions_are_the_components_of_the_pipelined_channels(drawn):
    widths, rows = drawn
    types = {True: "BLOCKING", False: "PIPELINED_BOUNDED"}
    edges = [edge(a, b, is_pointwise=pointwise, partition_type=types[blocks]) for a, b, pointwise, blocks in rows]
    job = plan(widths, *edges)
    try:
        regions = PipelinedRegions(job)
    except ValueError as error:
        assert "can never begin" in str(error)
        assume(False)
    neighbours = defaultdict(set)
    for each in edges:
        for consumer in range(widths[each.target]):
            for producer, _ in job.channels_of(each, consumer) if each.is_pipelined else ():
                neighbours[each.source, producer].add((each.target, consumer))
                neighbours[each.target, consumer].add((each.source, producer))
    assert everything(regions) == [(a, b) for a, width in enumerate(widths) for b in range(width)]
    for members in regions.members:
        reached, pending = set(), [members[0]]
        while pending:
            subtask = pending.pop()
            if subtask not in reached:
                reached.add(subtask)
                pending.extend(neighbours[subtask])
        assert reached == set(members)
    for subtask in everything(regions):
        again = set(regions.to_restart([subtask], lambda partition: True))
        assert subtask in again
        for member in again:  # closed: who reads what a restarted one writes starts again, too
            for each in edges:
                if each.source == member[0]:
                    readers = range(widths[each.target])
                    assert {
                        (each.target, reader)
                        for reader in readers
                        if member[1] in {producer for producer, _ in job.channels_of(each, reader)}
                    } <= again
