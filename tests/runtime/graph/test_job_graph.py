"""The program as tasks: what is chained, and what is wired how."""

import sys

import pytest
from support.programs.program import (
    OfTheProgram,
    graph_of,
    keyed,
    operator,
    partitioned,
    side_output,
    sink,
    source,
    union,
)

from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.job_plan import plan_of
from flinkbuf.runtime.graph.transformation import ChainingStrategy, CommittedBehind, CustomExchange
from flinkbuf.runtime.scheduler.regions import PipelinedRegions
from flinkbuf.streaming.sinks.collect import Collector
from flinkbuf.streaming.sinks.sink_factories import CollectSinkFactory, PrintSinkFactory, sink_factory_of
from flinkbuf.streaming.sources.source_factories import source_factory_of


def job_of(*transformations, **settings):
    return build_job_graph(graph_of(*transformations, **settings))


def names(job):
    return [vertex.name for vertex in job.vertices]


def test_operators_in_a_row_are_one_task():
    assert names(job_of(sink(operator("Filter", operator("Map", source()))))) == [
        "Source: numbers -> Map -> Filter -> Sink: Print"
    ]


def test_a_chain_may_be_longer_than_python_s_stack():
    stream = source()
    for _ in range(sys.getrecursionlimit() + 10):
        stream = operator("Map", stream)
    (vertex,) = job_of(stream).vertices
    assert len(vertex.nodes) == sys.getrecursionlimit() + 11
    assert vertex.name.startswith("Source: numbers -> Map -> Map -> ")


def test_a_chain_that_forks_is_one_task():
    doubled = operator("Map", source())
    job = job_of(sink(doubled, "A"), sink(operator("Filter", doubled), "B"))
    assert names(job) == ["Source: numbers -> Map -> (Sink: A, Filter -> Sink: B)"]
    chain = job.vertices[0].chain
    assert [[edge.target for edge in each.chained_edges] for each in chain.operators] == [[1], [2, 3], [], [4], []]


@pytest.mark.parametrize(
    ("options_up", "options_down", "settings"),
    [
        ({}, {"parallelism": 2}, {}),
        ({}, {"slot_sharing_group": "other"}, {}),
        ({"chaining_strategy": ChainingStrategy.NEVER}, {}, {}),
        ({}, {"chaining_strategy": ChainingStrategy.NEVER}, {}),
        ({}, {"chaining_strategy": ChainingStrategy.HEAD}, {}),
        ({"is_legacy_source": True}, {"is_yielding": True}, {}),
        ({}, {"max_parallelism": 64}, {"chains_different_max_parallelism": False}),
        ({}, {}, {"is_chaining_enabled": False}),
    ],
)
def test_what_keeps_two_operators_apart(options_up, options_down, settings):
    job = job_of(operator("Map", source(**options_up), **options_down), **settings)
    assert names(job) == ["Source: numbers", "Map"]


@pytest.mark.parametrize(
    ("options_up", "options_down"),
    [
        ({"chaining_strategy": ChainingStrategy.HEAD}, {}),
        ({}, {"chaining_strategy": ChainingStrategy.HEAD_WITH_SOURCES}),
        ({}, {"is_yielding": True}),
        ({}, {"max_parallelism": 64}),
    ],
)
def test_what_does_not_keep_two_operators_apart(options_up, options_down):
    assert len(job_of(operator("Map", source(**options_up), **options_down)).vertices) == 1


@pytest.mark.parametrize("partitioner", ["rebalance", "rescale", "shuffle", "broadcast", "global"])
def test_a_partitioner_other_than_forward_keeps_two_operators_apart(partitioner):
    assert len(job_of(operator("Map", partitioned(source(), partitioner))).vertices) == 2


def test_two_inputs_are_never_chained_and_a_union_is_one_input_of_two_gates():
    left, right, third = source("left"), source("right"), source("third")
    job = job_of(operator("CoMap", union(left, right), keyed(third)))
    assert names(job) == ["Source: left", "Source: right", "Source: third", "CoMap"]
    assert [config.gate_indexes for config in job.vertices[3].chain.inputs] == [(0, 1), (2,)]
    assert [edge.ship_strategy for edge in job.vertices[3].inputs] == ["FORWARD", "FORWARD", "HASH"]


def test_each_edge_has_a_partition_of_its_own():
    process = operator("Process", source())
    job = job_of(
        operator("A", keyed(process), parallelism=2),
        operator("B", partitioned(side_output(process, "late"), "rescale"), parallelism=3),
    )
    producer = job.vertices[0].chain
    assert producer.partition_count == 2
    edges = producer.operators[1].network_edges
    assert [(edge.partition_index, edge.output_tag) for edge in edges] == [(0, None), (1, "late")]
    assert [edge.subpartition_count(0) for edge in job.vertices[0].outputs] == [2, 3]
    assert [edge.is_pointwise for edge in job.vertices[0].outputs] == [False, True]


def test_a_reader_stands_behind_all_it_reads_from():
    first = source("first")
    late = operator("late", operator("mid", keyed(first), parallelism=2), keyed(first))
    job = job_of(late)
    for place, vertex in enumerate(job.vertices):
        assert {edge.source.producer for edge in vertex.inputs} <= set(job.vertices[:place])


def test_key_groups_are_those_of_the_reader():
    job = job_of(operator("Count", keyed(source(max_parallelism=7)), max_parallelism=99))
    assert job.vertices[0].chain.operators[0].network_edges[0].partitioner.max_parallelism == 99
    assert [vertex.max_parallelism for vertex in job.vertices] == [7, 99]


def test_slots_are_the_widest_vertex_of_each_group():
    wide = operator("wide", source(), parallelism=4)
    job = job_of(operator("apart", wide, parallelism=3, slot_sharing_group="own"))
    assert job.slot_count == 4 + 3


def test_a_custom_partitioner_is_given_the_key():
    exchange = CustomExchange(lambda key, count: key % count, lambda record: record * 10)
    job = job_of(operator("Map", partitioned(source(), exchange, "CUSTOM"), parallelism=4))
    function = job.vertices[0].chain.operators[0].network_edges[0].partitioner.function
    assert function(7, 4) == 70 % 4
    assert repr(function) == repr(exchange.partition)  # errors name what the user wrote


# --- what uses objects of the program


@pytest.mark.parametrize(
    ("factory", "is_in_program"),
    [
        (sink_factory_of([].append), True),
        (CollectSinkFactory(Collector()), True),
        (source_factory_of([1, 2]), True),
        (source_factory_of(lambda: [1, 2]), False),
        (PrintSinkFactory(), False),
        (list, False),
    ],
)
def test_what_holds_an_object_of_the_program_runs_beside_it(factory, is_in_program):
    operators = job_of(operator("Map", source(), factory=factory), runs_in_program=False).vertices[-1].nodes
    assert operators[-1].transformation.is_in_program is operators[-1].is_in_program is is_in_program


def test_what_runs_beside_the_program_is_not_chained_keeps_its_parallelism_and_takes_no_slot():
    numbers = source(factory=OfTheProgram())
    doubled = operator("Map", operator("Filter", numbers, parallelism=3), parallelism=3)
    job = job_of(sink(doubled, "Append", factory=OfTheProgram(), parallelism=5), runs_in_program=False)
    assert names(job) == ["Source: numbers", "Filter -> Map", "Sink: Append"]
    assert [(vertex.is_in_program, vertex.parallelism) for vertex in job.vertices] == [
        (True, 1),
        (False, 3),
        (True, 5),
    ]
    assert [len(vertex.outputs) for vertex in job.vertices] == [1, 1, 0]  # all cross the network
    assert job.slot_count == 3
    assert [vertex.is_in_program for vertex in plan_of(job, "0" * 32).vertices] == [True, False, True]


def test_where_all_runs_in_the_program_its_objects_are_nothing_special():
    job = job_of(sink(operator("Map", source(factory=OfTheProgram())), factory=OfTheProgram()))
    assert names(job) == ["Source: numbers -> Map -> Sink: Print"]
    assert not job.vertices[0].is_in_program and job.slot_count == 1


# --- co-location


def test_a_chain_is_co_located_as_its_operators_are():
    numbers = source()
    left = operator("B", operator("A", keyed(numbers)), co_location_group="g")
    job = job_of(left, operator("C", keyed(numbers), co_location_group="g"))
    assert [(vertex.name, vertex.co_location_group) for vertex in job.vertices] == [
        ("Source: numbers", None),
        ("A -> B", "g"),
        ("C", "g"),
    ]
    assert [vertex.co_location_group for vertex in plan_of(job, "0" * 32).vertices] == [None, "g", "g"]


def test_a_chain_in_two_co_location_groups_is_refused():
    with pytest.raises(ValueError, match="several co-location groups: 'A' in 'g', 'B' in 'h'; call start_new_chain"):
        job_of(operator("B", operator("A", source(), co_location_group="g"), co_location_group="h"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"slot_sharing_group": "own"},
            "different slot sharing groups: in group 'g', 'A' is in 'default' and 'B' in 'own'",
        ),
        ({"factory": OfTheProgram()}, "'B' uses an object of the program and runs beside it, in no slot"),
    ],
)
def test_what_can_share_no_slot_cannot_be_co_located(options, text):
    first = operator("A", source(), co_location_group="g")
    with pytest.raises(ValueError, match=text):
        job_of(operator("B", first, co_location_group="g", **options), runs_in_program=False)


def exchanges(job):
    return [(edge.source.producer.name, edge.target.name, edge.is_pipelined) for edge in job.edges]


def test_in_batch_what_is_not_chained_is_read_when_it_is_complete():
    stream = sink(keyed(operator("Map", source())), "Out")
    assert all(edge.is_pipelined for edge in job_of(stream, parallelism=2).edges)
    job = job_of(stream, parallelism=2, is_batch=True)
    assert not any(edge.is_pipelined for edge in job.edges)
    assert [edge.partition_type for edge in plan_of(job, "").edges] == ["BLOCKING"] * len(list(job.edges))
    assert all(
        edge.buffer_timeout_ms == -1
        for vertex in job.vertices
        for each in vertex.chain.operators
        for edge in each.network_edges
    )
    assert all(edge.is_pipelined for edge in job_of(stream, parallelism=2, is_batch=True, is_blocking=False).edges)


def test_in_batch_those_share_slots_that_stream_to_each_other():
    stream = sink(keyed(operator("Map", source())), "Out")
    job = job_of(stream, parallelism=3, is_batch=True)
    groups = [vertex.slot_sharing_group for vertex in job.vertices]
    assert len(set(groups)) == len(groups) and job.slot_count == 3, "one after the other"
    streams = job_of(stream, parallelism=3, is_batch=True, is_blocking=False)
    assert {vertex.slot_sharing_group for vertex in streams.vertices} == {"default"}
    mine = sink(operator("Map", source(), slot_sharing_group="mine", parallelism=2), "Out")
    assert {vertex.slot_sharing_group for vertex in job_of(mine, is_batch=True).vertices} >= {"mine"}


def test_an_input_that_is_read_first_is_complete_and_so_are_all_others():
    """Else an operator that waits for one could hold up what writes both."""
    shared = operator("Map", source())
    both = operator("Both", shared, partitioned(shared, "broadcast"))
    joined = operator("Joined", keyed(shared), keyed(both))  # it streams from who must be complete, and from who waits
    job = job_of(sink(joined), is_batch=True, is_blocking=False)
    assert PipelinedRegions(plan_of(job, "")).groups
    assert len(exchanges(job)) >= 2 and not any(pipelined for _, _, pipelined in exchanges(job))


@pytest.mark.parametrize("is_blocking", [True, False])
def test_in_batch_what_commits_is_a_task_behind_the_writers(is_blocking):
    stream = sink(operator("Map", source(), parallelism=2), "Rows", parallelism=2, uid="rows")
    stream.in_batch = CommittedBehind(list, tuple)
    job = job_of(stream, is_batch=True, is_blocking=is_blocking)
    assert names(job)[-2:] == ["Map -> Rows: Writer", "Sink: Rows: Committer"]
    writers, committers = job.vertices[-2:]
    assert (writers.chain.operators[-1].factory, committers.chain.operators[0].factory) == (list, tuple)
    assert [each.uid for vertex in (writers, committers) for each in vertex.chain.operators] == [
        None,
        "rows",
        "Sink Committer: rows",
    ]
    (edge,) = committers.inputs
    assert edge.is_pointwise and not edge.is_pipelined and committers.parallelism == 2
    assert [each.is_committer for each in plan_of(job, "").vertices] == [False, False, True]
    assert job.slot_count == 2


def test_in_streaming_what_commits_is_the_writer():
    plain, able = (sink(operator("Map", source()), "Rows") for _ in range(2))
    able.in_batch = CommittedBehind(list, tuple)
    jobs = [job_of(plain), job_of(able)]
    assert names(jobs[0]) == names(jobs[1]) == ["Source: numbers -> Map -> Sink: Rows"]
    ids = [[each.operator_id for each in job.vertices[0].chain.operators] for job in jobs]
    assert ids[0] == ids[1], "its state is found again"
    assert not any(each.is_committer for each in plan_of(jobs[1], "").vertices)
