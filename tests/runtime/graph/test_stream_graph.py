"""The program as a graph of operators."""

import pytest
from support.programs.program import edges_of, graph_of, keyed, operator, partitioned, side_output, sink, source, union


def test_unsaid_partitioning_is_forward_between_equals_and_rebalance_else():
    graph = graph_of(sink(operator("Map", operator("Filter", source()), parallelism=3)), parallelism=1)
    assert edges_of(graph) == [
        ("Source: numbers", "FORWARD", "Filter", 1),
        ("Filter", "REBALANCE", "Map", 1),
        ("Map", "REBALANCE", "Sink: Print", 1),
    ]


def test_an_operator_that_two_read_is_in_the_graph_once_in_the_program_s_order():
    numbers = source()
    first, second = operator("A", numbers), operator("B", numbers)
    graph = graph_of(sink(second), sink(first))
    assert [node.name for node in graph.nodes] == ["Source: numbers", "A", "B", "Sink: Print", "Sink: Print"]
    assert [node.id for node in graph.nodes] == [1, 2, 3, 4, 5]


def test_a_union_is_several_edges_to_one_input():
    left, right = source("left"), source("right")
    graph = graph_of(operator("CoMap", union(left, right), keyed(right)))
    assert edges_of(graph) == [
        ("Source: left", "FORWARD", "CoMap", 1),
        ("Source: right", "FORWARD", "CoMap", 1),
        ("Source: right", "HASH", "CoMap", 2),
    ]


def test_what_is_said_last_about_partitioning_holds():
    graph = graph_of(operator("Map", partitioned(partitioned(source(), "shuffle"), "broadcast")))
    assert edges_of(graph) == [("Source: numbers", "BROADCAST", "Map", 1)]


def test_partitioning_of_a_union_holds_for_each_of_its_streams():
    graph = graph_of(operator("Map", partitioned(union(source("a"), source("b")), "shuffle")))
    assert [edge.ship_strategy for edge in graph.edges] == ["SHUFFLE", "SHUFFLE"]


def test_a_side_output_is_an_edge_with_its_tag_and_type():
    late = side_output(operator("Window", source()), "late")
    late.type = "the type of late records"
    graph = graph_of(sink(partitioned(late, "rebalance")))
    edge = graph.nodes[1].out_edges[0]
    assert (edge.output_tag, edge.type, edge.ship_strategy) == ("late", "the type of late records", "REBALANCE")


@pytest.mark.parametrize(("own", "default", "expected"), [(None, 2, 2), (5, 2, 5)])
def test_parallelism_is_the_operator_s_own_or_the_default(own, default, expected):
    graph = graph_of(operator("Map", source(), parallelism=own), parallelism=default)
    assert graph.nodes[1].parallelism == expected


def test_buffer_timeout_is_the_producer_s_own_or_the_default():
    graph = graph_of(operator("Map", operator("Filter", source(buffer_timeout_ms=0))), buffer_timeout_ms=7)
    assert [edge.buffer_timeout_ms for edge in graph.edges] == [0, 7]


def test_slot_sharing_groups_are_inherited_where_inputs_agree():
    blue, red = source("a", slot_sharing_group="blue"), source("b", slot_sharing_group="red")
    graph = graph_of(operator("both", operator("one", blue), red))
    groups = {node.name: node.slot_sharing_group for node in graph.nodes}
    assert groups == {"Source: a": "blue", "Source: b": "red", "one": "blue", "both": "default"}


def test_many_forks_and_joins_behind_one_another_take_no_longer_than_their_operators():
    stream = source(slot_sharing_group="blue")
    for _ in range(60):  # 2 ** 60 ways through it
        stream = union(operator("left", stream), operator("right", stream))
    assert {node.slot_sharing_group for node in graph_of(sink(stream)).nodes} == {"blue"}


def test_no_operator_at_all_is_refused():
    with pytest.raises(ValueError, match="No operators defined in streaming topology"):
        graph_of()


def test_a_circle_is_refused_with_its_names():
    first = operator("first", source())
    second = operator("second", first)
    first.inputs.append(second)
    with pytest.raises(ValueError, match="circle: 'first', 'second'"):
        graph_of(second)


def test_forward_between_unequal_parallelisms_is_refused():
    with pytest.raises(ValueError, match=r"'Source: numbers' has 1, 'Map' has 4; use rebalance"):
        graph_of(operator("Map", partitioned(source(), "forward"), parallelism=4))


def test_two_operators_of_one_uid_are_refused():
    numbers = source(uid="here")
    with pytest.raises(ValueError, match="'Source: numbers' and 'Map' have the same uid 'here'"):
        graph_of(operator("Map", numbers, uid="here"))


def test_missing_uids_are_refused_where_they_are_needed():
    with pytest.raises(ValueError, match="'Map' has no uid"):
        graph_of(operator("Map", source(uid="s")), needs_uids=True)
    graph_of(operator("Map", source(uid="s"), uid_hash="0" * 32), needs_uids=True)


@pytest.mark.parametrize("max_parallelism", [1, 32769])
def test_a_max_parallelism_that_does_not_fit_is_refused(max_parallelism):
    with pytest.raises(ValueError, match=f"from its parallelism 2 to 32768, got {max_parallelism}"):
        graph_of(operator("Map", source(), parallelism=2, max_parallelism=max_parallelism))


def test_an_operator_that_cannot_be_parallel():
    graph = graph_of(operator("Map", source(parallelism=None, max_allowed_parallelism=1)), parallelism=4)
    assert [node.parallelism for node in graph.nodes] == [1, 4]
    with pytest.raises(ValueError, match="must be 1, got 3"):
        graph_of(source(max_allowed_parallelism=1, parallelism=3))


def test_a_rescaled_job_leaves_an_operator_the_parallelism_that_the_program_gave_it():
    made_with = operator("made with the environment's", source(parallelism=1), parallelism=2)
    given = operator("given the same number", made_with, parallelism=2, is_parallelism_configured=True)
    graph = graph_of(given, parallelism=3, rescaled_from=2)
    assert {node.name: node.parallelism for node in graph.nodes} == {
        "Source: numbers": 1,
        "made with the environment's": 3,
        "given the same number": 2,
    }
