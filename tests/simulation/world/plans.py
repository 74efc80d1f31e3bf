"""Jobs drawn from a seed: graphs of vertices with parallelisms, edges, slot sharing and sources."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan


def random_plan(rng: Random) -> JobPlan:
    """Up to six vertices; each but the first reads from up to two of those before it."""
    vertex_count = rng.choice((1, 2, 2, 3, 3, 4, 5, 6))
    widest = rng.choice((1, 2, 3, 4, 4, 6))
    groups = rng.choice((("default",), ("default",), ("default", "side"), ("a", "b", "c")))
    inputs = [_inputs(rng, index) for index in range(vertex_count)]
    vertices = [_vertex(rng, index, widest, groups, bool(inputs[index])) for index in range(vertex_count)]
    _co_locate(rng, vertices)
    _to_the_program(rng, vertices)
    return JobPlan(hex_of(rng, 128), "a job", tuple(vertices), _edges(rng, vertices, inputs))


def hex_of(rng: Random, bits: int) -> str:
    """An identifier."""
    return f"{rng.getrandbits(bits):0{bits // 4}x}"


def _inputs(rng: Random, index: int) -> list[int]:
    if index == 0 or rng.random() < 0.15:
        return []  # a source
    return sorted(rng.sample(range(index), min(index, rng.choice((1, 1, 1, 2)))))


def _vertex(rng: Random, index: int, widest: int, groups: tuple[str, ...], has_inputs: bool) -> VertexPlan:
    operators = [OperatorPlan(hex_of(rng, 128), f"operator {index}.{at}") for at in range(rng.choice((1, 1, 2)))]
    if not has_inputs and rng.random() < 0.6:
        operators[0] = replace(operators[0], has_coordinator=True)
    return VertexPlan(
        id=hex_of(rng, 128),
        name=f"v{index}",
        parallelism=rng.randint(1, widest),
        max_parallelism=128,
        slot_sharing_group=rng.choice(groups),
        operators=tuple(operators),
    )


def _co_locate(rng: Random, vertices: list[VertexPlan]) -> None:
    """Two vertices of a group that are equally wide, now and then."""
    if len(vertices) > 1 and rng.random() < 0.2:
        one, other = rng.sample(range(len(vertices)), 2)
        shape = {"co_location_group": "pair", "slot_sharing_group": vertices[one].slot_sharing_group}
        vertices[one] = replace(vertices[one], **shape)
        vertices[other] = replace(vertices[other], parallelism=vertices[one].parallelism, **shape)


def _to_the_program(rng: Random, vertices: list[VertexPlan]) -> None:
    """The first or the last vertex holds objects of the program, now and then."""
    if len(vertices) > 1 and rng.random() < 0.25:
        index = rng.choice((0, -1))
        if vertices[index].co_location_group is None:
            vertices[index] = replace(vertices[index], is_in_program=True)


def _edges(rng: Random, vertices: list[VertexPlan], inputs: list[list[int]]) -> tuple[EdgePlan, ...]:
    edges: list[EdgePlan] = []
    partitions = [0] * len(vertices)
    for target, sources in enumerate(inputs):
        for gate, source in enumerate(sources):
            edges.append(EdgePlan(source, target, partitions[source], gate, is_pointwise=rng.random() < 0.5))
            partitions[source] += 1
    return tuple(edges)


def wide_plan(vertex_count: int, parallelism: int) -> JobPlan:
    """A pipeline: each vertex reads all of the one before."""
    rng = Random(0)
    vertices = [replace(_vertex(rng, i, 1, ("default",), True), parallelism=parallelism) for i in range(vertex_count)]
    edges = [EdgePlan(i, i + 1, 0, 0, is_pointwise=i % 2 == 0) for i in range(vertex_count - 1)]
    return JobPlan(hex_of(rng, 128), "a wide job", tuple(vertices), tuple(edges))
