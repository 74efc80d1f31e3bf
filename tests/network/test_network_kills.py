"""A producer and a consumer in two processes, one of which is killed with SIGKILL at a random moment, 100 times.

The one that survives has the exact result, or one error; what its reader was given before that is right; a writer is
not told that all was processed unless it was. It never hangs, and when all is over it holds no segment, thread or
file more than before. A producer whose reader dies before it has asked is told by nobody: who knows of the death gives
the partition up, as here and as Spark's driver does.

FLINKBUF_KILL_ROUNDS sets how many processes are killed (100), FLINKBUF_FAULT_SEED the seed. A failure names its round.
"""

import os
import random
import secrets
import time

import pytest
from support.faults.fault_job import TYPE, Task, config_of, nothing_left, records_of
from support.faults.fault_killer import CONSUME, PRODUCE, Killer
from support.faults.fault_proxy import wait_until

import flinkbuf as fb

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads and files are counted in /proc")

ROUNDS = int(os.environ.get("FLINKBUF_KILL_ROUNDS", "100"))
SEED = int(os.environ.get("FLINKBUF_FAULT_SEED", "7"))
PATIENCE_S = 60  # only a hang takes so long
UNASKED_S = 0.2  # how long a producer is left alone whose reader died before it was given anything
RECORDS = records_of(20_000)  # 190 buffers, of which both sides together hold less than 60
ERRORS = (fb.errors.CancelTaskError, fb.errors.RemoteTransportError, fb.errors.PartitionNotFoundError)


class Survivor:
    """The side that lives through all rounds of a test."""

    def __init__(self, killer, rng, buffers_per_channel):
        self.killer, self.rng = killer, rng
        self.secret = secrets.token_bytes(32)
        self.buffers_per_channel = buffers_per_channel
        config = config_of(buffers_per_channel, auth=self.secret, partition_request_timeout_ms=60_000)
        self.env = fb.NetworkEnvironment(config, num_segments=64)
        self.usual_s = 0.05  # from the victim's start to the end of all

    def start_victim(self, role, partition_id, **task):
        self.killer.start(
            role,
            secret=self.secret.hex(),
            buffers_per_channel=self.buffers_per_channel,
            partition_id=partition_id.hex(),
            record_count=len(RECORDS),
            timeout_ms=self.rng.choice([0, 1, 5]),
            **task,
        )

    def kill(self, task, progress, started):
        """At a random time, or after a random record, or when all is over."""
        if self.rng.random() < 0.5:
            moment = started + self.rng.random() * 1.3 * self.usual_s
            while task.is_alive() and (left := moment - time.monotonic()) > 0:
                task.join(left)
        else:
            wanted = self.rng.randrange(len(RECORDS))
            wait_until(lambda: progress() >= wanted or not task.is_alive(), PATIENCE_S)
        if not task.is_alive() and task.error is None:
            self.usual_s = 0.7 * self.usual_s + 0.3 * min(time.monotonic() - started, 1)
        self.killer.kill()

    def check_home(self):
        pool, counters = self.env.pool, self.env._server.counters
        assert wait_until(lambda: pool.available_segment_count == 64, PATIENCE_S), "segments are away"
        assert wait_until(lambda: counters()["connections"] + counters()["unproven"] == 0, PATIENCE_S)
        assert wait_until(lambda: self.env._client.counters()["connections"] == 0, PATIENCE_S)

    # ---- the producer is killed ------------------------------------------------------------------------------------

    def read(self, address, partition_id, received):
        channel = fb.network.RemoteChannel(*address, partition_id, 0)
        with self.env.create_gate([channel]) as gate, fb.RecordReader(gate, TYPE) as reader:
            for record in reader:
                received.append(record)

    def survive_producer(self):
        partition_id, received = fb.network.ResultPartitionID.random(), []
        started = time.monotonic()
        self.start_victim(PRODUCE, partition_id)
        port = self.killer.hear("address")
        consumer = Task(self.read, ("127.0.0.1", int(port)), partition_id, received)
        consumer.start()
        self.kill(consumer, lambda: len(received), started)
        consumer.end(PATIENCE_S)
        assert received == RECORDS[: len(received)]
        if consumer.error is None:
            assert len(received) == len(RECORDS)
        else:
            assert isinstance(consumer.error, ERRORS), repr(consumer.error)
            assert f"127.0.0.1:{port}" in str(consumer.error)

    # ---- the consumer is killed ------------------------------------------------------------------------------------

    def write(self, partition, timeout_ms):
        """Whether the reader has processed all."""
        with partition:
            with fb.RecordWriter(partition, TYPE, buffer_timeout_ms=timeout_ms) as writer:
                writer.emit_all(RECORDS)
            return partition.wait_for_all_data_processed(1000 * PATIENCE_S)

    def survive_consumer(self):
        partition_id = fb.network.ResultPartitionID.random()
        partition = self.env.create_partition(partition_id, 1)
        producer = Task(self.write, partition, self.rng.choice([0, 1, 5]))
        started = time.monotonic()
        self.start_victim(CONSUME, partition_id, port=self.env.address[1])
        producer.start()
        self.kill(producer, lambda: self.killer.count, started)
        was_given = self.killer.count
        assert self.killer.said("wrong", "error") is None, self.killer.said("wrong", "error")
        if was_given == 0:
            producer.join(UNASKED_S)
            partition.fail("its reader's process was killed")
        producer.end(PATIENCE_S)
        if producer.error is None and producer.result:
            assert was_given == len(RECORDS)
        elif producer.error is not None:
            assert isinstance(producer.error, ERRORS), repr(producer.error)
            expected = "the reader of subpartition 0 was lost: connection with 127.0.0.1:"
            assert expected in str(producer.error) or (was_given == 0 and "was killed" in str(producer.error))
        else:
            raise AssertionError(f"the reader was killed after {was_given} records, and the writer was told nothing")


@pytest.mark.parametrize("buffers_per_channel", [0, 2])
@pytest.mark.parametrize("victim", [PRODUCE, CONSUME])
def test_who_survives_the_other_process_has_the_exact_result_or_an_error(tmp_path, victim, buffers_per_channel):
    rng = random.Random(f"{SEED} {victim} {buffers_per_channel}")
    with Killer(tmp_path / "count") as killer, nothing_left():
        survivor = Survivor(killer, rng, buffers_per_channel)
        try:
            survive = survivor.survive_producer if victim == PRODUCE else survivor.survive_consumer
            for number in range(ROUNDS // 4):
                try:
                    survive()
                    survivor.check_home()
                except AssertionError as error:
                    raise AssertionError(f"round {number}, seed {SEED}: {error}") from error
        finally:
            survivor.env.close()
