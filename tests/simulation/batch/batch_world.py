"""A batch job and all that surrounds it: partitions that are read when they are complete, and that can be lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from simulation.batch.batch_invariants import BatchInvariants
from simulation.batch.batch_plans import random_batch_plan
from simulation.world.invariants import demand
from simulation.world.managers import SimManager
from simulation.world.tasks import KEEPALIVE_MS, DataPlane, SimTask
from simulation.world.world import START_MS, World

from flinkbuf.runtime.protocol.deployment import TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure


class BatchWorld(World):
    """Everything of one run of a batch job."""

    def __init__(self, seed: int, **options: Any) -> None:
        rng = Random(seed)
        super().__init__(seed, rng=rng, plan=random_batch_plan(rng), **options)

    def _begin(self) -> None:
        super()._begin()
        span_ms = self.odds.heal_ms - START_MS
        for _ in range(self.rng.choice((0, 0, 1, 3, 8))):
            self.agenda.at(START_MS + self.rng.randint(0, span_ms), self._spoil)
        self._keeper_dies = self.rng.choice((0.0, 0.0, 0.1, 0.5))

    def completed(self) -> None:
        """Some partitions have just become complete."""
        if not self.is_healed and self.rng.random() < self._keeper_dies:
            self.agenda.after(self.rng.choice((1, 50, 1_000)), self._kill_keeper)

    def _kill_keeper(self) -> None:
        """A manager dies that runs nothing, but keeps what others are to read."""
        keepers = {writer.manager.id: writer.manager for writer in self.data.kept.values()}
        for manager_id, manager in sorted(keepers.items()):
            is_idle = all(task.is_gone for task in manager.tasks.values())
            if self.end is None and is_idle and manager in self.provider.living():
                self.note("trouble: kill -9, it keeps partitions:", manager_id)
                manager.kill("kill -9")
                return

    def _spoil(self) -> None:
        """Somebody deletes a file."""
        kept = sorted(self.data.kept)
        if self.end is None and kept:
            partition_id = self.rng.choice(kept)
            self.note("trouble: deleted", partition_id)
            self.data.spoil(partition_id)

    def _make_data(self) -> BatchData:
        return BatchData(self)

    def _make_invariants(self) -> BatchInvariants:
        return BatchInvariants(self)

    def make_task(self, manager: SimManager, descriptor: TaskDeploymentDescriptor) -> SimTask:
        """The thread of an attempt, whose blocking partitions are known by their names from now on."""
        self.data.made(descriptor)
        return super().make_task(manager, descriptor)

    def gone(self, reader: SimTask, partition_id: str) -> Failure:
        """Of a task that cannot read a partition; now and then it cannot say which."""
        failure = self.echo(f"{reader.attempt} cannot read {partition_id}")
        if self.rng.random() < 0.8:
            failure = self.happened(replace(failure, lost_partition=partition_id))
        return failure


class BatchData(DataPlane):
    """Who reads from whom: blocking partitions when they are complete, pipelined ones while they are written."""

    def __init__(self, world: BatchWorld) -> None:
        super().__init__(world)
        self._blocking: set[str] = set()
        self._reading: dict[str, list[SimTask]] = {}  # of complete partitions: who has not come to their end
        self.kept: dict[str, SimTask] = {}  # complete blocking partitions at managers, by who wrote them

    def made(self, descriptor: TaskDeploymentDescriptor) -> None:
        """A task was made that will write these."""
        self._blocking.update(each.partition_id for each in descriptor.partitions if each.type == "BLOCKING")

    def connect(self, task: SimTask) -> None:
        """It asks for what it reads: what is complete must be there."""
        super().connect(task)
        complete = [each for each in _inputs_of(task) if each in self._blocking]
        task.unread.update(complete)
        for partition_id in complete:
            self._readers[partition_id].remove(task)
            delay_ms = self.world.between(self.world.odds.work_ms)
            if partition_id in self.kept:
                self._reading.setdefault(partition_id, []).append(task)
                self.world.agenda.after(delay_ms, self._read, task, partition_id)
            else:
                self.world.agenda.after(self.world.between((0, 100)), self._not_found, task, partition_id)

    def _look_for_inputs(self, task: SimTask) -> None:
        if not task.is_gone and any(self._is_missing(each) for each in _inputs_of(task) if each not in self._blocking):
            task.fail(self.world.echo(f"{task.attempt} finds no partition"))

    def _read(self, task: SimTask, partition_id: str) -> None:
        """It comes to the end of a partition, if that is still there."""
        readers = self._reading.get(partition_id, [])
        if task in readers and not task.is_gone:
            readers.remove(task)
            task.unread.discard(partition_id)
            task.look()

    def _not_found(self, task: SimTask, partition_id: str) -> None:
        if not task.is_gone:
            task.fail(self.world.gone(task, partition_id))

    def ended(self, task: SimTask, is_finished: bool) -> None:
        """What it wrote is complete, and kept; or gone."""
        super().ended(task, is_finished)
        for partition in task.descriptor.partitions:
            if is_finished and partition.partition_id in self._blocking:
                self.kept[partition.partition_id] = task
        if is_finished:
            self.world.completed()

    def drop(self, manager: SimManager, partition_ids: tuple[str, ...]) -> None:
        """The job master says that nobody needs them."""
        for partition_id in partition_ids:
            writer = self.kept.get(partition_id)
            demand(writer is None or writer.manager is manager, "dropped where it never was:", partition_id, manager)
            if writer is not None:
                self.lose(partition_id)

    def lose(self, partition_id: str) -> None:
        """Nobody can read it any more: who has not come to its end fails, soon or late."""
        super().lose(partition_id)
        writer = self.kept.pop(partition_id, None)
        for reader in self._reading.pop(partition_id, ()):
            if reader.is_gone:
                continue
            by_accident = writer is None or not writer.manager.is_alive or writer.manager.id not in self._accepted
            is_wanted = self.world.is_wanted(reader.attempt) and reader.manager.id in self._accepted
            demand(by_accident or not is_wanted, "a partition was freed that is read:", partition_id, reader)
            self._cannot_read(reader, partition_id)

    @property
    def _accepted(self) -> Any:
        return self.world.invariants.accepted

    def spoil(self, partition_id: str) -> None:
        """Its file is gone: who reads it fails, and so will whoever comes."""
        super().lose(partition_id)
        self.kept.pop(partition_id)
        for reader in self._reading.pop(partition_id, ()):
            self._cannot_read(reader, partition_id)

    def _cannot_read(self, reader: SimTask, partition_id: str) -> None:
        quick = self.world.rng.random() < self.world.odds.echo
        delay_ms = self.world.between((0, 100)) if quick else KEEPALIVE_MS
        self.world.agenda.after(delay_ms, self._not_found, reader, partition_id)


def _inputs_of(task: SimTask) -> list[str]:
    return [each.partition_id for gate in task.descriptor.gates for each in gate.locations]
