"""One seed from its beginning to its end, or to what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simulation.batch.batch_world import BatchWorld
from simulation.checkpoints.checkpoint_run import CheckpointRun
from simulation.world.invariants import Violation
from simulation.world.world import World


class FailedRun(AssertionError):
    """A seed that shows something wrong; says which, how to see it again, and the last of its story.

    Attributes
    ----------
    is_verdict : bool
        The books say so: an invariant does not hold, or the ledger is wrong. Else something raised an error of its own.
    """

    def __init__(self, world: World | CheckpointRun, error: Exception) -> None:
        super().__init__(explain(world, error))
        self.is_verdict = isinstance(error, Violation)


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
        raise FailedRun(world, error) from error


def run_checkpoints(seed: int) -> CheckpointRun:
    """Run a seed of the jobs that take checkpoints.

    Raises
    ------
    FailedRun
        An invariant does not hold, or a decider raised.
    """
    story = CheckpointRun(seed)
    try:
        return story.run()
    except Exception as error:
        raise FailedRun(story, error) from error


def run_batch(seed: int, **options: Any) -> BatchWorld:
    """Run a seed of the batch jobs.

    Raises
    ------
    FailedRun
        An invariant does not hold, or a decider raised.
    """
    world = BatchWorld(seed, **options)
    try:
        return world.run()
    except Exception as error:
        raise FailedRun(world, error) from error


def explain(world: World | CheckpointRun, error: Exception) -> str:
    """What a failing run prints."""
    again, more = f"make replay SEED={world.seed}", ""
    if isinstance(world, CheckpointRun):
        again, more = f"{again} OF=checkpoints", f"{world.checkpointing}\n{world.flow}\n"
    if isinstance(world, BatchWorld):
        again = f"{again} OF=batch"
    head = (
        f"seed {world.seed}: {type(error).__name__}: {error}\n"
        f"again: {again}, or pytest tests/simulation --seed {world.seed}\n"
        f"{world.settings}\n{world.odds}\n{more}{show_plan(world)}\nthe last of its story:\n"
    )
    return head + "\n".join(world.lines())


def show_plan(world: World | CheckpointRun) -> str:
    """Vertices and edges, a line each."""
    vertices = (
        f"{vertex.name} x{vertex.parallelism} {vertex.id[:8]} group {vertex.slot_sharing_group}"
        + " in the program" * vertex.is_in_program
        for vertex in world.plan.vertices
    )
    edges = (
        f"{edge.source} -{'-' if edge.is_pointwise else '<'}> {edge.target}" + " blocking" * (not edge.is_pipelined)
        for edge in world.plan.edges
    )
    return "\n".join([*vertices, *edges])


def run_all(seeds: Iterable[int]) -> list[World]:
    """Run seeds; the first that fails ends it."""
    return [run(seed) for seed in seeds]
