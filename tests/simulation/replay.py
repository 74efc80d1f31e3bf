"""One seed from its beginning to its end, or to what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simulation.world import World


class FailedRun(AssertionError):
    """A seed that shows something wrong; says which, how to see it again, and the last of its story."""


def run(seed: int, **options: Any) -> World:
    """Run a seed.

    Raises
    ------
    FailedRun
        An invariant does not hold, or a decider raised.
    """
    world = World(seed, **options)
    try:
        return world.run()
    except Exception as error:
        raise FailedRun(explain(world, error)) from error


def explain(world: World, error: Exception) -> str:
    """What a failing run prints."""
    head = (
        f"seed {world.seed}: {type(error).__name__}: {error}\n"
        f"again: make replay SEED={world.seed}, or pytest tests/simulation --seed {world.seed}\n"
        f"{world.settings}\n{world.odds}\n{show_plan(world)}\nthe last of its story:\n"
    )
    return head + "\n".join(world.lines())


def show_plan(world: World) -> str:
    """Vertices and edges, a line each."""
    vertices = (
        f"{vertex.name} x{vertex.parallelism} {vertex.id[:8]} group {vertex.slot_sharing_group}"
        + " in the program" * vertex.is_in_program
        for vertex in world.plan.vertices
    )
    edges = (f"{edge.source} -{'-' if edge.is_pointwise else '<'}> {edge.target}" for edge in world.plan.edges)
    return "\n".join([*vertices, *edges])


def run_all(seeds: Iterable[int]) -> list[World]:
    """Run seeds; the first that fails ends it."""
    return [run(seed) for seed in seeds]
