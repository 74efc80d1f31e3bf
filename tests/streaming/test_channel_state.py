"""What is under way at an unaligned checkpoint belongs to it: it is neither lost nor given twice after a restore."""

import contextlib
import functools
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf.network.events import (
    AlignmentType,
    CheckpointBarrier,
    EndOfData,
    EventAnnouncement,
)
from flinkbuf.streaming.channel_state import TaskChannelState

HANG_S = 20
STRING = fb.Types.STRING()
PRODUCERS, WIDTH = 2, 2  # partitions and subpartitions of each; one consumer reads all of them
CHANNELS = PRODUCERS * WIDTH


def unaligned(checkpoint_id):
    return CheckpointBarrier(checkpoint_id, 0, alignment=AlignmentType.UNALIGNED)


def timeoutable(checkpoint_id):
    return CheckpointBarrier(checkpoint_id, 0, alignment=AlignmentType.ALIGNED, aligned_timeout_ms=1000)


class Producer:
    """Writes what it is told, from where a checkpoint left it."""

    def __init__(self, env, written, outputs):
        self.id = fb.ResultPartitionID.random()
        self.partition = env.create_partition(self.id, WIDTH, "PIPELINED")
        self.state = TaskChannelState([], [self.partition])
        self.state.restore((), outputs)
        self.writer = fb.RecordWriter(self.partition, STRING, "rebalance", buffer_timeout_ms=-1)
        self.written = [list(each) for each in written]  # by subpartition
        self.snapshot = None

    def write(self, subpartition, size):
        record = f"{len(self.written[subpartition])}:" + "x" * size
        self.written[subpartition].append(record)
        self.writer.emit_to(record, subpartition)

    def send(self, barrier):
        self.state.broadcast(barrier)
        self.snapshot = [list(each) for each in self.written]


class Consumer:
    """Reads, and takes part in a checkpoint as a barrier handler would have it."""

    def __init__(self, env, channels, taken, inputs, is_union):
        gates = [env.create_gate(channels[i::PRODUCERS]) for i in range(PRODUCERS)] if is_union else []
        self.gate = fb.UnionInputGate(gates) if is_union else env.create_gate(channels)
        self.reader = fb.RecordReader(self.gate, STRING, events=True)
        self.state = TaskChannelState([(self.reader, range(PRODUCERS) if is_union else [0])], [])
        self.state.restore(inputs, ())
        self.taken = [list(each) for each in taken]  # by channel
        self.snapshot = None
        self.announced, self.blocked, self.received = {}, set(), set()

    def read(self, count):
        for _ in range(count):
            kind, value, _, channel = self.reader.poll()
            if kind == "RECORD":
                self.taken[channel].append(value)
            elif kind == "EVENT":
                self.on_event(channel, value)
            else:
                return False
        return True

    def look_for_priority(self):
        event = self.reader.poll_priority()
        if event is not None:
            self.on_event(*event)

    def on_event(self, channel, event):
        if isinstance(event, EventAnnouncement):
            self.announced[channel] = event.sequence_number
        elif isinstance(event, CheckpointBarrier):
            self.announced.pop(channel, None)
            if event.alignment is AlignmentType.ALIGNED:
                self.blocked.add(channel)
            else:
                self.start(event.checkpoint_id)
            self.received.add(channel)
            if len(self.received) == CHANNELS:
                self.complete(event.checkpoint_id)

    def start(self, checkpoint_id):
        if self.snapshot is None:
            for channel, number in self.announced.items():
                self.gate.convert_to_priority(channel, number)
            assert self.state.start_input(checkpoint_id)
            self.snapshot = [list(each) for each in self.taken]

    def complete(self, checkpoint_id):
        if self.snapshot is None:
            self.snapshot = [list(each) for each in self.taken]
        self.state.stop_input(checkpoint_id)
        for channel in self.blocked:
            self.gate.resume_consumption(channel)
        self.blocked, self.announced = set(), {}


class Job:
    """Producers and a consumer, begun from what an earlier one left behind at a checkpoint."""

    def __init__(self, env, kinds, is_union, checkpoint=None):
        written, taken, outputs, inputs = checkpoint or (
            [[[]] * WIDTH] * PRODUCERS,
            [[]] * CHANNELS,
            [()] * PRODUCERS,
            (),
        )
        self.producers = [Producer(env, *each) for each in zip(written, outputs, strict=True)]
        channels = [
            (fb.LocalChannel if kind == "local" else functools.partial(fb.RemoteChannel, *env.address))(
                self.producers[channel % PRODUCERS].id, channel // PRODUCERS
            )
            for channel, kind in enumerate(kinds)
        ]
        self.consumer = Consumer(env, channels, taken, inputs, is_union)
        self.is_union = is_union

    def written_to(self, channel):
        """What the producer of a consumer's channel has written to it."""
        gate, index = divmod(channel, WIDTH) if self.is_union else (channel % PRODUCERS, channel // PRODUCERS)
        return self.producers[gate].written[index]

    def take_checkpoint(self, checkpoint_id):
        deadline = time.monotonic() + HANG_S
        while len(self.consumer.received) < CHANNELS:
            assert time.monotonic() < deadline
            if not self.consumer.read(1):
                time.sleep(0.0005)
        outputs = [producer.state.take(checkpoint_id)[1] for producer in self.producers]
        inputs, none = self.consumer.state.take(checkpoint_id)
        assert none == ()
        return [each.snapshot for each in self.producers], self.consumer.snapshot, outputs, inputs

    def read_all(self):
        for producer in self.producers:
            producer.writer.close()
        deadline = time.monotonic() + HANG_S
        kind = None
        while kind != "FINISHED":
            assert time.monotonic() < deadline
            kind, value, _, channel = self.consumer.reader.poll()
            if kind == "RECORD":
                self.consumer.taken[channel].append(value)
            elif kind == "EVENT" and isinstance(value, EndOfData):
                self.consumer.gate.acknowledge_all_records_processed(channel)
            elif kind == "NOTHING":
                time.sleep(0.0005)
        for channel in range(CHANNELS):
            assert self.consumer.taken[channel] == self.written_to(channel), f"channel {channel}"

    def close(self):
        self.consumer.reader.close()
        self.consumer.gate.close()
        for producer in self.producers:
            producer.writer.stop()
            producer.partition.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.integers(0, PRODUCERS - 1),
            st.integers(0, WIDTH - 1),
            st.sampled_from([0, 10, 100, 2000, 9000]),
        ),
        st.tuples(st.just("flush"), st.integers(0, PRODUCERS - 1)),
        st.tuples(st.just("read"), st.integers(1, 4)),
        st.tuples(st.just("look")),
        st.tuples(st.just("wait")),
    ),
    max_size=25,
)
ROUND = st.fixed_dictionaries(
    {
        "before": STEPS,
        "barriers": st.permutations(range(PRODUCERS)),
        "kinds": st.tuples(*[st.sampled_from(["unaligned", "timeout", "timeout, converted"])] * PRODUCERS),
        "between": STEPS,
        "is_switched": st.booleans(),
        "after": STEPS,
    }
)


def play(job, steps):
    for step in steps:
        if step[0] == "write":
            job.producers[step[1]].write(*step[2:])
        elif step[0] == "flush":
            job.producers[step[1]].partition.flush_all()
        elif step[0] == "read":
            job.consumer.read(step[1])
        elif step[0] == "look":
            job.consumer.look_for_priority()
        else:
            time.sleep(0.001)


def play_round(job, plan, checkpoint_id):
    play(job, plan["before"])
    for turn, number in enumerate(plan["barriers"]):
        producer, kind = job.producers[number], plan["kinds"][number]
        producer.send(unaligned(checkpoint_id) if kind == "unaligned" else timeoutable(checkpoint_id))
        if turn < PRODUCERS - 1:
            play(job, plan["between"])
    play(job, plan["after"][: len(plan["after"]) // 2])
    for number, kind in enumerate(plan["kinds"]):
        if kind == "timeout, converted":
            job.producers[number].state.convert_output(checkpoint_id)
            assert job.producers[number].state.is_output_settled(checkpoint_id)
    if plan["is_switched"]:
        job.consumer.start(checkpoint_id)
    play(job, plan["after"][len(plan["after"]) // 2 :])
    return job.take_checkpoint(checkpoint_id)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kinds=st.tuples(*[st.sampled_from(["local", "remote"])] * CHANNELS),
    is_union=st.booleans(),
    rounds=st.lists(ROUND, min_size=1, max_size=3),
)
def test_every_record_is_processed_once_from_checkpoint_to_checkpoint(kinds, is_union, rounds):
    """Each round begins from the checkpoint of the one before, perhaps before all that it restored was read."""
    config = fb.NetworkConfig(segment_size=4096, tcp_connection_enable_reuse_across_jobs=False)
    checkpoint = None
    with fb.NetworkEnvironment(config, num_segments=2000) as env:
        for checkpoint_id, plan in enumerate(rounds, 1):
            with contextlib.closing(Job(env, kinds, is_union, checkpoint)) as job:
                checkpoint = play_round(job, plan, checkpoint_id)
                job.read_all()  # this one, too, gives each record once
        with contextlib.closing(Job(env, kinds, is_union, checkpoint)) as job:
            job.read_all()
