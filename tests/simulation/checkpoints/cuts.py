"""Whether the parts of a checkpoint belong together: whatever one task has sent, the next one has, or it is between."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING

from simulation.flow.flow_records import Path, Records
from simulation.world.invariants import demand

from flinkbuf.checkpoints.handles import CheckpointMetadata

if TYPE_CHECKING:
    from simulation.checkpoints.checkpoint_world import CheckpointWorld
    from simulation.flow.flow_state import Snapshot

Parts = dict[tuple[int, int], "Snapshot | None"]  # by vertex and subtask; None: nothing is known of it


def check_cut(world: CheckpointWorld, metadata: CheckpointMetadata, parts: Parts) -> None:
    """Demand that it is a consistent one."""
    counts = _counts(world, metadata, parts)
    between = _between(world, parts)
    for vertex in range(len(world.plan.vertices)):
        for path in world.routes.paths_to(vertex):
            if len(path) > 1 and counts[vertex] is not None and counts[path[-2]] is not None:
                for split in world.routes.splits_of(path[0]):
                    sent = counts[path[-2]].get((path[:-1], split), 0)
                    has = counts[vertex].get((path, split), 0)
                    _compare(world, metadata, path, split, sent, has, between[path, split])


def _compare(
    world: CheckpointWorld, metadata: CheckpointMetadata, path: Path, split: int, sent: int, has: int, between: int
) -> None:
    text = (f"checkpoint {metadata.checkpoint_id}", path, split, f"{sent} sent, {has} there, {between} between")
    if world.checkpointing.is_exactly_once:
        demand(sent == has + between, "the parts of a checkpoint do not belong together:", *text)
    else:
        demand(sent <= has, "records are lost between the parts of a checkpoint:", *text)


def _counts(
    world: CheckpointWorld, metadata: CheckpointMetadata, parts: Parts
) -> list[dict[tuple[Path, int], int] | None]:
    """How many records each vertex has of each split; None: nobody knows."""
    result: list[dict[tuple[Path, int], int] | None] = []
    for vertex, plan in enumerate(world.plan.vertices):
        snapshots = [parts[vertex, subtask] for subtask in range(plan.parallelism)]
        if any(each is None or each.is_unknown for each in snapshots):
            result.append(None)
        elif world.routes.inputs[vertex]:
            together: dict[tuple[Path, int], int] = {}
            for each in snapshots:
                for key, count in each.counts.items():
                    together[key] = max(count, together.get(key, 0))
            result.append(together)
        else:
            result.append(_positions(world, metadata, vertex, snapshots))
    return result


def _positions(world: CheckpointWorld, metadata: CheckpointMetadata, vertex: int, snapshots: list) -> dict:
    """Of a source; each split is with one reader, or with the coordinator."""
    owners: Counter[int] = Counter()
    positions = {}
    for each in snapshots:
        owners.update(each.positions.keys())
        positions |= {((vertex,), split): position for split, position in each.positions.items()}
    for operator in metadata.vertices[vertex].operators:
        if operator.coordinator is not None:
            owners.update(pickle.loads(operator.coordinator.data))
    # Those that a finished task has read to their end are in nobody's state any more.
    gone = [each for each in world.routes.splits_of(vertex) if each not in owners and each in world.cluster.read_splits]
    owners.update(gone)
    positions |= {((vertex,), split): world.routes.split_size for split in gone}
    splits = Counter(world.routes.splits_of(vertex))
    demand(owners == splits, "splits are lost or double:", metadata.checkpoint_id, vertex, sorted(owners.elements()))
    return positions


def _between(world: CheckpointWorld, parts: Parts) -> Counter[tuple[Path, int]]:
    """Records in the state of channels, by the way that they would have come and their split."""
    found: Counter[tuple[Path, int]] = Counter()

    def add(records: Records, target: int) -> None:
        found[(*records.path, target), records.split] += records.end - records.first

    for (vertex, _), snapshot in parts.items():
        if snapshot is None:
            continue
        for records in (each for kept in snapshot.input_state.values() for each in kept):
            add(records, vertex)
        for (partition, _), overtaken in snapshot.output_state.items():
            for records in overtaken:
                add(records, world.routes.outputs[vertex][partition].target)
    return found
