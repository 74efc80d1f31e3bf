"""What a program takes over from the checkpoint that it begins from."""

import pytest

from flinkbuf.checkpoints.handles import CheckpointMetadata, OperatorInCheckpoint, VertexInCheckpoint
from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.operator_ids import operator_ids
from flinkbuf.runtime.graph.restored_graph import adopt_max_parallelism
from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.runtime.graph.transformation import OperatorTransformation


def program(parallelism, *, max_parallelism=None):
    source = OperatorTransformation("numbers", None, [], factory=list, is_source=True, parallelism=1)
    counts = OperatorTransformation(
        "counts", None, [source], factory=list, uid="counts", max_parallelism=max_parallelism
    )
    return build_stream_graph([counts], GraphSettings(parallelism=parallelism))


def checkpoint(max_parallelism=128):
    graph = program(2)
    ids = operator_ids(graph)
    vertices = tuple(
        VertexInCheckpoint(
            ids[node.id], node.name, 2, max_parallelism, (OperatorInCheckpoint(ids[node.id], node.name),), ()
        )
        for node in graph.nodes
    )
    return CheckpointMetadata(1, 0, "aa" * 16, "before", True, vertices)


def adopted(graph, metadata):
    adopt_max_parallelism(graph, metadata)
    return [vertex.max_parallelism for vertex in build_job_graph(graph).vertices]


def test_a_program_of_many_subtasks_keeps_the_key_groups_of_few():
    assert [vertex.max_parallelism for vertex in build_job_graph(program(100)).vertices] == [128, 256]
    assert adopted(program(100), checkpoint()) == [128, 128]


def test_what_the_program_sets_stays():
    assert adopted(program(2, max_parallelism=64), checkpoint()) == [128, 64]


def test_operators_that_the_checkpoint_does_not_know_stay_as_they_are():
    empty = CheckpointMetadata(1, 0, "aa" * 16, "before", True, ())
    assert adopted(program(100), empty) == [128, 256]


def test_more_subtasks_than_key_groups_are_refused():
    with pytest.raises(ValueError, match="parallelism 3, but .* 2 key groups"):
        adopt_max_parallelism(program(3), checkpoint(2))
