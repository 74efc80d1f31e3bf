"""What is under way at an unaligned checkpoint belongs to it: it is neither lost nor given twice after a restore."""

import contextlib
import functools
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf.network.events import (
    AlignmentType,
    CheckpointBarrier,
    EndOfData,
    EventAnnouncement,
)
from flinkbuf.streaming.checkpoint.channel_state import TaskChannelState

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
        self.id = fb.network.ResultPartitionID.random()
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
        self.gate = fb.network.UnionInputGate(gates) if is_union else env.create_gate(channels)
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
            (fb.network.LocalChannel if kind == "local" else functools.partial(fb.network.RemoteChannel, *env.address))(
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


# ---- one call after the other ---------------------------------------------------------------------------------------


@pytest.fixture
def env():
    config = fb.NetworkConfig(segment_size=4096, tcp_connection_enable_reuse_across_jobs=False)
    with fb.NetworkEnvironment(config, num_segments=200) as env:
        yield env
        assert env.pool.available_segment_count == 200, "a segment did not come home"


class Line:
    """One partition, read by one gate."""

    def __init__(self, env, width=1, kind="local", type="PIPELINED_BOUNDED", **options):
        self.id = fb.network.ResultPartitionID.random()
        self.partition = env.create_partition(self.id, width, type)
        self.output = TaskChannelState([], [self.partition], **options)
        self.writer = fb.RecordWriter(self.partition, STRING, "rebalance", buffer_timeout_ms=-1)
        make = fb.network.LocalChannel if kind == "local" else functools.partial(fb.network.RemoteChannel, *env.address)
        self.gate = env.create_gate([make(self.id, index) for index in range(width)])
        self.reader = fb.RecordReader(self.gate, STRING, events=True)

    @functools.cached_property
    def input(self):
        return TaskChannelState([(self.reader, [0])], [])

    def next(self):
        deadline = time.monotonic() + HANG_S
        while (item := self.reader.poll())[0] == "NOTHING":
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        return item[1]

    def barrier(self):
        deadline = time.monotonic() + HANG_S
        while (event := self.reader.poll_priority()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        return event

    def close(self):
        self.reader.close()
        self.gate.close()
        self.writer.stop()
        self.partition.close()


def framed(*records):
    """The bytes of these records, as they travel."""
    return b"".join(bytes(data) for _, data in fb.write_buffers(records, STRING, 1))


def full(line):
    """Write until nothing more fits; how many records that were."""
    count = 0
    while line.partition.is_available:
        line.writer.emit("x" * 1000)
        count += 1
    return count


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_an_unaligned_barrier_passes_a_queue_that_nobody_reads(env, kind):
    """The reader does not even come to read: its own output is full."""
    with contextlib.closing(Line(env, kind=kind)) as line:
        line.gate.request_partitions()
        count = full(line)
        line.output.broadcast(unaligned(1))
        assert line.barrier() == (0, unaligned(1))
        assert line.input.start_input(1)
        line.input.stop_input(1)
        inputs, outputs = line.input.take(1)[0], line.output.take(1)[1]
        assert b"".join(data for _, _, data in inputs + outputs) == framed(*["x" * 1000] * count)
        assert kind == "remote" or inputs == ()  # what is queued for a local channel is its producer's


def test_an_aligned_one_waits_for_its_turn(env):
    with contextlib.closing(Line(env)) as line:
        count = full(line)
        line.output.broadcast(timeoutable(1))
        assert line.reader.poll_priority() is None and not line.output.is_output_settled(1)
        assert [line.next() for _ in range(count)] == ["x" * 1000] * count
        assert line.next() == timeoutable(1) and line.output.is_output_settled(1)
        assert not line.output.convert_output(1)
        assert line.output.take(1) == ((), ())


def test_the_tasks_bell_rings_when_a_barrier_has_left(env):
    from flinkbuf._core.ground.wakeup import TaskBell

    with contextlib.closing(Line(env)) as line:
        bell = TaskBell()
        line.partition.share_bell(bell)
        line.output.broadcast(timeoutable(1))
        seen = bell.seen()
        assert line.next() == timeoutable(1)
        assert bell.seen() != seen


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_the_record_in_hand_and_the_one_that_is_begun_belong_to_the_input(env, kind):
    records = ["a", "b" * 3000, "c" * 6000]
    with contextlib.closing(Line(env, kind=kind)) as line:
        for record in records:
            line.writer.emit(record)
        line.partition.flush_all()
        assert line.next() == "a"
        assert line.input.start_input(7)
        line.output.broadcast(unaligned(7))
        while line.reader.poll()[0] != "EVENT":
            pass
        line.input.stop_input(7)
        inputs, outputs = line.input.take(7)[0], line.output.take(7)[1]
        stream = b"".join(data for _, _, data in inputs) + b"".join(data for _, _, data in outputs)
        assert stream == framed(*records[1:])
        assert inputs[0][:2] == (0, 0) and all(each[:2] == (0, 0) for each in outputs)


def test_what_an_older_checkpoint_kept_is_forgotten(env):
    with contextlib.closing(Line(env)) as line:
        line.writer.emit_all(["a", "b"])
        line.partition.flush_all()
        assert line.next() == "a"
        assert line.input.start_input(1) and line.input.size(1) == len(framed("b"))
        with pytest.raises(RuntimeError, match="still waits for barriers"):
            line.input.take(1)
        assert line.input.start_input(2)
        line.input.stop_input(1)  # it is over
        assert line.input.take(1) == ((), ())
        line.input.stop_input(2)
        assert line.input.take(2) == (((0, 0, framed("b")),), ())
        assert line.input.take(2) == ((), ())
        assert line.input.start_input(3)
        line.input.abort(2)
        assert line.input.size(3) > 0
        line.input.abort(3)
        line.input.abort(3)
        line.input.stop_input(3)
        assert line.input.size(3) == 0 and line.input.take(3) == ((), ())
        line.output.broadcast(unaligned(4))
        line.output.abort(4)
        assert line.output.take(4) == ((), ())


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_after_the_barrier_of_a_newer_checkpoint_an_older_one_does_not_begin(env, kind):
    with contextlib.closing(Line(env, kind=kind, width=2)) as line:
        line.gate.request_partitions()
        line.output.broadcast(unaligned(5))
        assert line.barrier()[1].checkpoint_id == line.barrier()[1].checkpoint_id == 5
        assert not line.input.start_input(4)
        assert line.input.take(4) == ((), ())
        assert line.input.start_input(5)


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_more_than_may_be_kept_ends_the_checkpoint(env, kind):
    with contextlib.closing(Line(env, kind=kind)) as line:
        line.gate.request_partitions()
        state = TaskChannelState([(line.reader, [0])], [], max_bytes=1500)
        assert state.start_input(1)
        line.writer.emit_all(["x" * 1000, "y" * 1000])
        line.partition.flush_all()
        assert [line.next(), line.next()] == ["x" * 1000, "y" * 1000]
        with pytest.raises(MemoryError, match="checkpoint 1: more data arrived"):
            state.stop_input(1)
        assert state.take(1) == ((), ())
        assert state.start_input(2)  # the next one may
        state.stop_input(2)


def test_edges_that_must_align_get_a_barrier_that_waits(env):
    with contextlib.closing(Line(env, forced_aligned=[0])) as line:
        line.writer.emit("a")
        line.output.broadcast(unaligned(1))
        assert line.next() == "a"
        barrier = line.next()
        assert barrier.alignment is AlignmentType.FORCED_ALIGNED and barrier.checkpoint_id == 1
        assert line.output.take(1) == ((), ())


def test_restored_data_come_first_though_the_network_was_faster(env):
    with contextlib.closing(Line(env, kind="remote", width=2)) as line:
        line.output.restore((), [(0, 1, framed("out", "o" * 9000))])
        with pytest.raises(RuntimeError, match="written to before"):
            line.output.restore((), [(0, 1, b"again")])
        line.writer.emit_to("new", 0)
        line.writer.emit_to("later", 1)
        line.partition.flush_all()
        line.gate.request_partitions()
        deadline = time.monotonic() + HANG_S
        while min(each["queued"] for each in line.gate.figures()["channels"]) == 0:
            assert time.monotonic() < deadline
        begun = framed("joined " * 1000)
        line.input.restore([(0, 0, framed("a", "b")), (0, 1, b"")], ())
        with pytest.raises(RuntimeError, match="read or restored already"):
            line.input.restore([(0, 0, begun)], ())
        assert not line.input.is_restored
        taken = [[], []]
        while sum(map(len, taken)) < 6:
            record = line.next()
            taken[line.reader.channel_index].append(record)
        assert taken == [["a", "b", "new"], ["out", "o" * 9000, "later"]]
        assert line.input.is_restored
        with pytest.raises(RuntimeError, match="read or restored already"):
            line.input.restore([(0, 0, begun)], ())


def test_a_record_is_joined_from_what_input_and_output_have_restored(env):
    record = framed("over the edge " * 700)
    with contextlib.closing(Line(env)) as line:
        line.input.restore([(0, 0, record[:5000])], ())
        line.output.restore((), [(0, 0, record[5000:])])
        assert line.next() == "over the edge " * 700


@pytest.mark.parametrize("place", [(1, 0), (0, 1)])
def test_state_of_a_channel_that_is_not_there_is_refused(env, place):
    with contextlib.closing(Line(env)) as line:
        with pytest.raises(ValueError, match="same parallelism"):
            line.input.restore([(*place, b"x")], ())
        with pytest.raises(ValueError, match="same parallelism"):
            line.output.restore((), [(*place, b"x")])


def test_gates_of_a_union_go_by_their_indexes_in_the_task(env):
    lines = [Line(env, width=2) for _ in range(2)]
    gate = fb.network.UnionInputGate([line.gate for line in lines])
    reader = fb.RecordReader(gate, STRING, events=True)
    state = TaskChannelState([(reader, [3, 5])], [])
    state.restore([(3, 1, framed("a")), (5, 0, framed("b"))], ())
    assert state.start_input(1)
    state.stop_input(1)
    assert state.take(1)[0] == ((3, 1, framed("a")), (5, 0, framed("b")))
    with pytest.raises(ValueError, match="1 gate indexes for an input that reads 2"):
        TaskChannelState([(reader, [3])], [])
    reader.close()
    gate.close()
    for line in lines:
        line.close()


def test_a_checkpoint_begins_between_two_records(env):
    with contextlib.closing(Line(env)) as line:
        line.writer.emit_all("x" * 4000 for _ in range(3))

        def records():
            yield "a"
            with pytest.raises(RuntimeError, match="being written to"):
                line.output.broadcast(unaligned(1))
            yield "b"

        line.writer.emit_all(records())
        line.output.broadcast(unaligned(1))
        assert line.output.take(1)[1][0][2].endswith(framed("a", "b"))


@pytest.mark.parametrize("is_union", [False, True])
def test_an_announced_barrier_is_converted_and_its_sender_goes_on(env, is_union):
    with contextlib.closing(Line(env, kind="remote")) as line:
        if is_union:
            line.gate = fb.network.UnionInputGate([line.gate, env.create_gate([fb.network.LocalChannel(line.id, 0)])])
            line.reader = fb.RecordReader(line.gate, STRING, events=True)
            line.gate.gates[0].request_partitions()
        else:
            line.gate.request_partitions()
        line.writer.emit("before")
        line.output.broadcast(timeoutable(1))
        line.writer.emit("behind")
        line.partition.flush_all()
        channel, announcement = line.barrier()
        assert announcement.announced == timeoutable(1)
        assert not line.gate.convert_to_priority(channel, announcement.sequence_number + 1)
        assert line.gate.convert_to_priority(channel, announcement.sequence_number)
        assert not line.gate.convert_to_priority(channel, announcement.sequence_number)
        with pytest.raises(IndexError, match="channel 2"):
            line.gate.convert_to_priority(2, 0)
        if not is_union:
            assert line.input.start_input(1)
            assert line.next() == unaligned(1)
            line.input.stop_input(1)
            assert line.input.take(1)[0] == ((0, 0, framed("before")),)
            assert line.next() == "before"
            assert line.next() == "behind"  # nobody has resumed the channel
