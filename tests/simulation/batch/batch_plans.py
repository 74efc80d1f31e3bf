"""Batch jobs drawn from a seed: graphs of blocking and pipelined edges, and fewer slots than they would like."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from simulation.world.plans import random_plan

from flinkbuf.runtime.graph.job_plan import BLOCKING, PIPELINED_BOUNDED, JobPlan
from flinkbuf.runtime.scheduler.regions import PipelinedRegions
from flinkbuf.runtime.scheduler.slots import slot_count


def random_batch_plan(rng: Random) -> JobPlan:
    """A plan whose regions run one after the other."""
    plan = replace(random_plan(rng), is_batch=True)
    share = rng.choice((0.0, 0.0, 0.3, 0.6, 1.0))  # of pipelined edges
    plan = _with_types(plan, [rng.random() < share for _ in plan.edges])
    try:
        PipelinedRegions(plan)
    except ValueError:  # a region would wait for itself
        plan = _with_types(plan, [False] * len(plan.edges))
    plan = _with_committers(plan)
    if rng.random() < 0.15:
        plan = _with_fixed_slots(rng, plan)
    return replace(plan, slot_limit=_limit(rng, plan))


def _with_types(plan: JobPlan, pipelined: list[bool]) -> JobPlan:
    types = (PIPELINED_BOUNDED if each else BLOCKING for each in pipelined)
    edges = (replace(edge, partition_type=kind) for edge, kind in zip(plan.edges, types, strict=True))
    return replace(plan, edges=tuple(edges))


def _with_committers(plan: JobPlan) -> JobPlan:
    """Some of the last vertices commit, if they read only what is complete."""
    rng = Random(repr(plan))  # the story that a seed tells of the rest stays as it is
    sources = {edge.source for edge in plan.edges}
    streamed = {edge.target for edge in plan.edges if edge.is_pipelined}
    read = {edge.target for edge in plan.edges} - sources - streamed
    vertices = (
        replace(vertex, is_committer=index in read and rng.random() < 0.7) for index, vertex in enumerate(plan.vertices)
    )
    return replace(plan, vertices=tuple(vertices))


def _with_fixed_slots(rng: Random, plan: JobPlan) -> JobPlan:
    """The first vertex reads what belongs to its slots."""
    first, *others = plan.vertices
    return replace(plan, vertices=(replace(first, is_slot_fixed=not first.is_in_program), *others))


def _limit(rng: Random, plan: JobPlan) -> int | None:
    if rng.random() < 0.4:
        return None
    limit = rng.randint(1, max(1, slot_count(plan)))
    while True:
        try:
            slot_count(replace(plan, slot_limit=limit))
        except ValueError:
            limit += 1
        else:
            return limit
