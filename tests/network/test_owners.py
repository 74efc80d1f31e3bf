"""Several tasks in one process: what one of them has comes and goes, the others do not notice."""

import random
import threading
import time

import pytest
from support.faults.fault_job import nothing_left
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf.network.owners import Owners

TYPE = fb.Types.STRING()
RECORDS = [str(number) * 10 for number in range(3000)]


class Stream:
    """One task that writes and one that reads, each with its owner, on threads of their own."""

    def __init__(self, there, here, name, width=1):
        self.there, self.here, self.name = there, here, name
        self.id = fb.network.ResultPartitionID.random()
        self.partition = there.create_partition(self.id, 1, owner=f"writer {name}")
        channel = (
            fb.network.LocalChannel(self.id, 0)
            if here is there
            else fb.network.RemoteChannel(*there.address, self.id, 0)
        )
        self.gate = here.create_gate([channel], owner=f"reader {name}")
        self.got, self.errors = [], []
        self.go = threading.Event()
        self.threads = [threading.Thread(target=self.guard, args=(work,)) for work in (self.write, self.read)]
        for thread in self.threads:
            thread.start()

    def guard(self, work):
        try:
            work()
        except (
            fb.errors.CancelTaskError,
            fb.errors.RemoteTransportError,
            fb.errors.PartitionNotFoundError,
            RuntimeError,
        ) as error:
            self.errors.append(error)

    def write(self):
        with self.partition, fb.RecordWriter(self.partition, TYPE, buffer_timeout_ms=1) as writer:
            for index, record in enumerate(RECORDS):
                if index == len(RECORDS) // 2:
                    self.go.wait(20)
                writer.emit(record)

    def read(self):
        with self.gate, fb.RecordReader(self.gate, TYPE) as reader:
            self.got.extend(reader)

    def release(self):
        self.there.release_owner(f"writer {self.name}")
        self.here.release_owner(f"reader {self.name}")

    def join(self):
        self.go.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


def is_home(env):
    return env.pool.available_segment_count == env.pool.total_segment_count and len(env._manager) == 0


@pytest.mark.parametrize("is_local", [True, False])
def test_tasks_of_one_environment_come_and_go_while_others_run(is_local):
    with nothing_left():
        there = fb.NetworkEnvironment(num_segments=256)
        here = there if is_local else fb.NetworkEnvironment(num_segments=256)
        staying = [Stream(there, here, f"staying {index}") for index in range(3)]
        for round_number in range(10):
            going = [Stream(there, here, f"going {round_number} {index}") for index in range(2)]
            time.sleep(0.002 * round_number)
            for stream in going:
                stream.release()
            for stream in going:
                stream.join()
                assert stream.partition.is_closed
                assert stream.gate.is_closed
        assert not any(stream.errors or stream.partition.is_closed for stream in staying)
        for stream in staying:
            stream.join()
            assert (stream.errors, stream.got) == ([], RECORDS)
            stream.release()
        wait_until(lambda: is_home(there) and is_home(here))
        assert list(there._owners) == list(here._owners) == []
        here.close()
        there.close()


def test_whoever_goes_at_any_moment_the_others_get_everything():
    rng = random.Random(11)
    with nothing_left(), fb.NetworkEnvironment(num_segments=512) as there, fb.NetworkEnvironment() as here:
        for round_number in range(15):
            streams = [Stream(there, here, f"{round_number} {index}") for index in range(4)]
            time.sleep(rng.random() * 0.02)
            gone = rng.sample(streams, rng.randrange(1, 4))
            for stream in streams:
                stream.go.set()
            for stream in gone:
                stream.release()
            for stream in streams:
                stream.join()
                if stream not in gone:
                    assert (stream.errors, stream.got) == ([], RECORDS)
                stream.release()
            wait_until(lambda: is_home(there) and is_home(here))


def test_a_finished_partition_stays_for_its_reader_though_its_owner_s_gates_are_released():
    with fb.NetworkEnvironment() as env:
        name = fb.network.ResultPartitionID.random()
        partition = env.create_partition(name, 1, owner="writer")
        with partition, fb.RecordWriter(partition, TYPE) as writer:
            writer.emit_all(["a", "b"])
        env.release_gates("writer")
        env.create_partition(fb.network.ResultPartitionID.random(), 1, owner="another").release()
        with env.create_gate([fb.network.LocalChannel(name, 0)], owner="reader") as gate:
            assert list(fb.RecordReader(gate, TYPE)) == ["a", "b"]
        env.create_gate([fb.network.LocalChannel(fb.network.ResultPartitionID.random(), 0)], owner="reader")
        assert "writer" not in list(env._owners)  # it was read to its end, and was forgotten


def test_what_nobody_has_read_goes_with_its_owner():
    with fb.NetworkEnvironment() as env:
        partition = env.create_partition(fb.network.ResultPartitionID.random(), 1, owner="writer")
        with partition, fb.RecordWriter(partition, TYPE) as writer:
            writer.emit_all(["a", "b"])
        env.release_owner("writer")
        env.release_owner("writer")
        assert partition.is_released
        wait_until(lambda: is_home(env))


def test_one_that_another_task_still_closes_is_not_closed_for_it():
    """Read to its end, but its writer has not said its last word: only a task itself closes what it writes."""
    with fb.NetworkEnvironment() as env:
        name = fb.network.ResultPartitionID.random()
        partition = env.create_partition(name, 1, owner="writer")
        writer = fb.RecordWriter(partition, TYPE)
        writer.emit("a")
        partition.finish()
        with env.create_gate([fb.network.LocalChannel(name, 0)], owner="reader") as gate:
            assert list(fb.RecordReader(gate, TYPE)) == ["a"]
        env.create_partition(fb.network.ResultPartitionID.random(), 1, owner="another")
        assert not partition.is_closed
        writer.stop()
        partition.close()
        env.release_owner("another")


def test_a_gate_that_waits_for_buffers_is_given_up_with_its_owner():
    config = fb.NetworkConfig(exclusive_buffers_request_timeout_ms=30_000)
    with fb.NetworkEnvironment(config, num_segments=16) as env, nothing_left():
        pool = env.pool.create_buffer_pool(15, 15)
        pool.reserve_segments(15)
        failures = []

        def create():
            try:
                channels = [
                    fb.network.RemoteChannel("127.0.0.1", 9, fb.network.ResultPartitionID.random(), 0) for _ in range(4)
                ]
                env.create_gate(channels, owner="task")
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=create)
        thread.start()
        time.sleep(0.1)
        env.release_owner("task")
        thread.join(10)
        assert not thread.is_alive()
        assert failures
        pool.close()


def test_owners_know_what_is_whose():
    owners = Owners()
    for name in "abc":
        owners.add_partition("one", name, name.upper())
    owners.add_partition("two", "d", "D")
    owners.forget_partition("b")
    owners.forget_partition("unknown")
    assert owners.take_partitions("one") == [("a", "A"), ("c", "C")]
    assert owners.take_partitions("one") == []
    assert not owners.has("a")
    assert owners.has("d")
    assert list(owners) == ["two"]
