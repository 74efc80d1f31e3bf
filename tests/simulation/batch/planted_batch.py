"""Bugs that somebody might make in what a batch job has besides: the simulation has to find all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flinkbuf.runtime.master import failover
from flinkbuf.runtime.master.failover import Failover
from flinkbuf.runtime.scheduler import scheduler, task_control
from flinkbuf.runtime.scheduler.partition_tracker import PartitionTracker
from flinkbuf.runtime.scheduler.regions import BlockingGroup, PipelinedRegions
from flinkbuf.runtime.scheduler.slot_assignment import SlotAssignment

BUGS: dict[str, Callable[[Any], None]] = {}  # each is given pytest's monkeypatch


def bug(plant: Callable[[Any], None]) -> Callable[[Any], None]:
    """Under the function's name."""
    BUGS[plant.__name__] = plant
    return plant


@bug
def regions_begin_before_their_input_is_complete(patch):
    patch.setattr(PartitionTracker, "has_all", lambda self, region: True)


@bug
def regions_are_scheduled_when_one_of_their_inputs_is_complete(patch):
    def has_some(self, region):
        numbers = self._regions.read_by.get(region, ())
        return not numbers or not all(self._missing[number] for number in numbers)

    patch.setattr(PartitionTracker, "has_all", has_some)


@bug
def partitions_are_let_go_by_the_first_reader(patch):
    def first(self, region):
        freed = _finished(self, region)
        for number in self._regions.read_by.get(region, ()):
            freed += self._remove_all(number)
        return freed

    _finished = PartitionTracker._finished
    patch.setattr(PartitionTracker, "_finished", first)


@bug
def partitions_are_never_let_go(patch):
    patch.setattr(PartitionTracker, "_remove_all", lambda self, number: [])


@bug
def a_region_counts_as_finished_with_its_first_subtask(patch):
    def first(self, producer, manager_id, ids):
        self._keep(producer, manager_id, ids)
        region = self._regions.region_of[producer]
        self._running[region] -= 1
        return self._finished(region) if region not in self._done else []

    patch.setattr(PartitionTracker, "finished", first)


@bug
def partitions_of_lost_managers_are_believed_to_be_there(patch):
    patch.setattr(PartitionTracker, "lose_manager", lambda self, manager_id: None)


@bug
def a_partition_that_cannot_be_read_is_believed_to_be_there(patch):
    patch.setattr(PartitionTracker, "lose", lambda self, partition_id: False)


@bug
def nobody_minds_lost_partitions_that_are_waited_for(patch):
    patch.setattr(PartitionTracker, "wanted_again", lambda self, is_reading: [])


@bug
def only_subtasks_that_run_count_as_waiting_for_partitions(patch):
    wanted = PartitionTracker.wanted_again
    patch.setattr(PartitionTracker, "wanted_again", lambda self, is_reading: wanted(self, lambda region: True))


@bug
def what_is_written_again_is_believed_to_be_there(patch):
    patch.setattr(PartitionTracker, "begins_again", lambda self, subtask: None)


@bug
def everything_begins_again(patch):
    def all_of_it(self, failed, is_available, settled=()):
        return [subtask for members in self.members for subtask in members]

    patch.setattr(PipelinedRegions, "to_restart", all_of_it)


@bug
def producers_begin_again_though_their_partitions_are_there(patch):
    to_restart = PipelinedRegions.to_restart
    patch.setattr(PipelinedRegions, "to_restart", lambda self, failed, *_: to_restart(self, failed, lambda each: False))


@bug
def producers_of_what_is_gone_do_not_begin_again(patch):
    to_restart = PipelinedRegions.to_restart
    patch.setattr(PipelinedRegions, "to_restart", lambda self, failed, *_: to_restart(self, failed, lambda each: True))


@bug
def finished_ones_begin_again_in_other_processes_too(patch):
    def all_of_it(self):
        return [each.key for each in self._graph.subtasks()] if self._plan.is_batch else None

    patch.setattr(Failover, "_in_new_run", all_of_it)


@bug
def what_went_with_the_processes_is_believed_to_be_there(patch):
    def unfinished(self):
        open_ones = (each.key for each in self._graph.subtasks() if not self._is_finished(each.key))
        return self._regions.to_restart(open_ones, lambda each: True)

    patch.setattr(failover.Failover, "_in_new_run", unfinished)


@bug
def readers_of_what_is_written_again_go_on(patch):
    groups_of = PipelinedRegions._groups_of

    def unread(self, plan, edge):
        for group in groups_of(self, plan, edge):
            yield BlockingGroup(group.partitions, group.readers[:1])

    patch.setattr(PipelinedRegions, "_groups_of", unread)


@bug
def committers_that_have_finished_begin_again(patch):
    patch.setattr(PipelinedRegions, "settled", lambda self, is_finished: set())


@bug
def a_committer_alone_is_settled(patch):
    def alone(self, is_finished):
        return {region for region in self.committers if all(map(is_finished, self.members[region]))}

    patch.setattr(PipelinedRegions, "settled", alone)


@bug
def committers_wait_for_their_own_partitions_only(patch):
    def has_own(self, region):
        return not any(self._missing[number] for number in self._regions.read_by.get(region, ()))

    patch.setattr(PartitionTracker, "has_all", has_own)


@bug
def what_is_written_again_for_settled_committers_is_kept(patch):
    def keeps(self, producer, manager_id, ids):
        self._keep(producer, manager_id, ids)
        region = self._regions.region_of[producer]
        self._running[region] -= 1
        return [] if self._running[region] else self._finished(region)

    patch.setattr(PartitionTracker, "finished", keeps)


@bug
def slots_are_never_given_back(patch):
    patch.setattr(SlotAssignment, "give_back", lambda self, subtask: None)


@bug
def slots_are_given_back_while_others_share_them(patch):
    def at_once(self, subtask):
        if subtask.slot in self._users:
            del self._users[subtask.slot]
        self._shares.pop((subtask.plan.slot_sharing_group, subtask.index), None)

    patch.setattr(SlotAssignment, "give_back", at_once)


@bug
def a_slot_is_released_twice(patch):
    def without_a_look(self, subtask):
        if subtask.slot in self._users:
            users = self._users[subtask.slot]
            is_last = users <= {subtask.key} or subtask.key not in users
            users.discard(subtask.key)
            if is_last:
                del self._users[subtask.slot]
                self._shares.pop((subtask.plan.slot_sharing_group, subtask.index), None)

    patch.setattr(SlotAssignment, "give_back", without_a_look)


@bug
def slots_that_are_taken_are_given_again(patch):
    choose = SlotAssignment._choose

    def careless(self, shares, held):
        users, self._users = self._users, {}
        try:
            return choose(self, shares, held)
        finally:
            self._users = users

    patch.setattr(SlotAssignment, "_choose", careless)


@bug
def what_reads_its_slots_takes_any(patch):
    def anything(self, subtasks, held):
        subtasks = list(subtasks)
        plans = [each.plan for each in subtasks]
        for each in subtasks:
            each.plan = replace(each.plan, is_slot_fixed=False)
        taken = take(self, subtasks, held)
        for each, plan in zip(subtasks, plans, strict=True):
            each.plan = plan
        return taken

    take = SlotAssignment.take
    patch.setattr(SlotAssignment, "take", anything)


@bug
def subtasks_of_a_region_are_deployed_one_by_one(patch):
    batch = scheduler.Scheduler._batch

    def one_by_one(self, subtasks, now_ms):
        return [batch(self, [each], now_ms) for each in subtasks][-1]

    patch.setattr(scheduler.Scheduler, "_batch", one_by_one)


@bug
def partitions_are_let_go_at_any_manager(patch):
    by_manager = task_control.by_manager

    def at_the_first(partitions):
        found = by_manager(partitions)
        return {next(iter(found)): tuple(each for ids in found.values() for each in ids)} if found else {}

    patch.setattr(task_control, "by_manager", at_the_first)


@bug
def regions_that_wait_for_slots_are_forgotten_when_another_begins_again(patch):
    drop = scheduler.Scheduler.drop

    def drop_all(self, subtasks):
        drop(self, subtasks)
        self._without_slots.clear()

    patch.setattr(scheduler.Scheduler, "drop", drop_all)


@bug
def nobody_looks_for_regions_when_a_task_has_ended(patch):
    def ended(self, subtask):
        self.slots.give_back(subtask)

    patch.setattr(scheduler.Scheduler, "ended", ended)
