"""Small programs of transformations, for the tests of graphs."""

from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.runtime.graph.transformation import (
    KeyedExchange,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    UnionTransformation,
)


class OfTheProgram(list):
    """A factory whose operator uses an object of the program itself."""

    is_in_program = True


def source(name="numbers", **options):
    options.setdefault("parallelism", 1)
    options.setdefault("factory", list)
    return OperatorTransformation(name, None, [], is_source=True, **options)


def operator(name, *inputs, **options):
    options.setdefault("factory", list)
    return OperatorTransformation(name, None, list(inputs), **options)


def sink(given, name="Print", **options):
    return operator(name, given, is_sink=True, **options)


def partitioned(given, partitioner, ship_strategy=None):
    return PartitionTransformation(
        "partition", given.type, [given], partitioner=partitioner, ship_strategy=ship_strategy or partitioner.upper()
    )


def keyed(given):
    return partitioned(given, KeyedExchange(str), "HASH")


def side_output(given, tag):
    return SideOutputTransformation("side", None, [given], output_tag=tag)


def union(*inputs):
    return UnionTransformation("union", None, list(inputs))


def graph_of(*transformations, **settings):
    return build_stream_graph(transformations, GraphSettings(**settings))


def edges_of(graph):
    return [(edge.source.name, edge.ship_strategy, edge.target.name, edge.input_number) for edge in graph.edges]
