"""Descriptors: who reads what of whom, where it is, and under which name."""

import time

import pytest
from support.worlds.master_world import JOB, SESSION, MasterWorld, edge, pipeline, vertex

from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.network.partition import ResultPartitionID
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.protocol.messages import KINDS, DeployTasks
from flinkbuf.runtime.scheduler.master_actions import SendTo

CODEC = MessageCodec(KINDS)


def descriptors(world):
    """By (vertex name, subtask), of the last call, with the manager that gets it."""
    return {
        (each.task_name, each.attempt.subtask_index): (action.manager_id, each)
        for action in world.last
        if isinstance(action, SendTo) and isinstance(action.message, DeployTasks)
        for each in CODEC.decode(CODEC.encode(action.message)).descriptors
    }


def test_every_channel_names_a_partition_and_the_manager_that_has_it():
    world = MasterWorld(pipeline(3)).start().register_all()
    found = descriptors(world)
    assert len(found) == 6
    for consumer in range(3):
        manager_id, sink = found["sink", consumer]
        assert manager_id == f"m1-{consumer}"
        (gate,) = sink.gates
        assert [channel.subpartition_index for channel in gate.channels] == [consumer] * 3
        for producer, channel in enumerate(gate.channels):
            (partition,) = found["source", producer][1].partitions
            assert (channel.partition_id, partition.subpartition_count) == (partition.partition_id, 3)
            assert (channel.host, channel.port) == (f"host{producer}", 5000 + producer)


@pytest.mark.parametrize("checkpointing", [None, CheckpointCoordinatorConfig(epoch=3)])
def test_every_attempt_knows_the_epoch_of_its_job_master(checkpointing):
    world = MasterWorld(pipeline(2), FixedDelayRestart(1, 0), checkpointing=checkpointing).start().register_all()
    epoch = 1 if checkpointing is None else 3
    assert [descriptor.epoch for _, descriptor in descriptors(world).values()] == [epoch] * 4


def test_readers_of_the_same_partitions_share_their_locations():
    world = MasterWorld(pipeline(3)).start().register_all()
    gates = [task.gates[0] for message in world.of(DeployTasks) for task in message.descriptors if task.gates]
    assert len(gates) == 3 and len({id(gate.locations) for gate in gates}) == 1


def test_a_partitions_name_is_put_together_as_flink_does():
    world = MasterWorld(pipeline(2)).start().register_all()
    (partition,) = descriptors(world)["source", 1][1].partitions
    data = ResultPartitionID.from_hex(partition.partition_id)
    assert data[16:20] == (1).to_bytes(4, "big"), "number of the partition"
    assert data[20:36].hex() == SESSION
    assert data[36:52].hex() == world.plan.vertices[0].id
    assert data[52:] == bytes(3) + b"\1" + bytes(4), "subtask and attempt"


def test_each_attempt_writes_under_a_name_of_its_own():
    world = MasterWorld(pipeline(2), FixedDelayRestart(1, 0)).start().register_all()
    old = {descriptor.partitions for _, descriptor in descriptors(world).values() if descriptor.partitions}
    world.all_report("RUNNING").report(world.attempt(0, 0), "FAILED")
    world.confirm_cancels()
    new = {descriptor.partitions for _, descriptor in descriptors(world).values() if descriptor.partitions}
    assert len(old) == len(new) == 2
    assert not old & new
    read = {
        channel.partition_id
        for _, each in descriptors(world).values()
        for gate in each.gates
        for channel in gate.channels
    }
    assert read == {partition.partition_id for (partition,) in new}


def test_pointwise_channels_and_several_gates_and_partitions():
    vertices = (vertex("a", 2), vertex("b", 5), vertex("c", 5))
    edges = (
        edge(0, 1, is_pointwise=True, partition_index=1),
        edge(0, 2, partition_index=0, gate_index=1),
        edge(1, 2, is_pointwise=True, gate_index=0),
    )
    world = MasterWorld(JobPlan(JOB, "three", vertices, edges)).start().register_all()
    found = descriptors(world)
    first, second = found["a", 1][1].partitions
    assert (first.subpartition_count, second.subpartition_count) == (5, 2)
    (channel,) = found["b", 3][1].gates[0].channels
    assert (channel.partition_id, channel.subpartition_index) == (second.partition_id, 1)
    (channel,) = found["b", 4][1].gates[0].channels
    assert (channel.partition_id, channel.subpartition_index) == (second.partition_id, 0), "4 mod 2, not 4 - 3"
    local, shuffled = found["c", 4][1].gates
    assert [channel.partition_id for channel in local.channels] == [found["b", 4][1].partitions[0].partition_id]
    assert len(shuffled.channels) == 2
    assert shuffled.channels[1].partition_id == first.partition_id


@pytest.mark.parametrize("slot_count", [1, 4])
def test_slots_of_a_manager_are_numbered_from_its_own_first(slot_count):
    world = MasterWorld(pipeline(4)).start()
    for index in range(0, 4, slot_count):
        world.register(index, slot_count=slot_count)
    found = descriptors(world)
    assert [found["sink", number][1].slot_index for number in range(4)] == [number % slot_count for number in range(4)]


def test_a_task_manager_is_told_of_producers_before_their_readers_in_one_message():
    world = MasterWorld(pipeline(2)).start().register_all()
    names = [(manager_id, name) for (name, _), (manager_id, _) in descriptors(world).items()]
    assert names == [("m1-0", "source"), ("m1-0", "sink"), ("m1-1", "source"), ("m1-1", "sink")]


@pytest.mark.parametrize("is_pointwise", [False, True])
def test_a_thousand_subtasks_are_built_scheduled_and_deployed_in_a_second(is_pointwise):
    started = time.process_time()
    world = MasterWorld(pipeline(500, is_pointwise=is_pointwise)).start()
    for index in range(500):
        world.register(index, run=1)
    assert len(world.place) == 1000
    assert time.process_time() - started < 1
