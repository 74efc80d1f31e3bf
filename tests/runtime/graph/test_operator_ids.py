"""Names of operators that stay the same from run to run."""

import pytest
from support.programs.program import graph_of, keyed, operator, sink, source, union

from flinkbuf.runtime.graph.operator_ids import operator_ids


def ids_of(*transformations, **settings):
    graph = graph_of(*transformations, **settings)
    ids = operator_ids(graph)
    return {node.name: ids[node.id] for node in graph.nodes}


def program(**options):
    return sink(operator("Count", keyed(operator("Map", source(**options)))))


def test_the_same_program_has_the_same_ids_always():
    assert ids_of(program()) == {
        "Source: numbers": "eb73a4c1eb0f2bf542d5373506b5c0e8",
        "Map": "3ace4edc8d3d782889381cebc3c87b47",
        "Count": "4ab2501dcf9ddc801f9aa83a04395714",
        "Sink: Print": "1fc1204a313686a9d2166daa97092616",
    }


def test_ids_do_not_depend_on_parallelism():
    assert ids_of(program()) == ids_of(program(parallelism=3), parallelism=3)


def test_a_uid_is_an_id_wherever_the_operator_stands():
    moved = ids_of(sink(operator("Count", keyed(operator("Filter", operator("Map", source()))), uid="count")))
    stayed = ids_of(sink(operator("Count", keyed(source()), uid="count")))
    assert moved["Count"] == stayed["Count"]


def test_what_stands_behind_a_new_operator_has_another_id():
    before, after = (
        ids_of(program()),
        ids_of(sink(operator("Count", keyed(operator("New", operator("Map", source())))))),
    )
    assert before["Count"] != after["Count"]


def test_all_operators_of_a_wide_graph_have_ids_of_their_own():
    sources = [source(str(number)) for number in range(5)]
    joined = operator("joined", union(*sources), keyed(sources[0]))
    ids = ids_of(*[sink(joined, str(number)) for number in range(5)])
    assert len(set(ids.values())) == len(ids) == 11


def test_a_uid_hash_is_taken_as_it_is_and_only_once():
    assert ids_of(source(uid_hash="ab" * 16)) == {"Source: numbers": "ab" * 16}
    with pytest.raises(ValueError, match="'Source: numbers' and 'Map' have the same id abab"):
        ids_of(operator("Map", source(uid_hash="ab" * 16), uid_hash="ab" * 16))
