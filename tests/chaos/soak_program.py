"""A job with all kinds of state that has no end, on local processes; its driver does what files in DIRECTORY say.

``python soak_program.py DIRECTORY BACKEND``. A file ``rescale`` with a number brings it to that parallelism, a file
``stop`` ends it. What it commits is read, and deleted, by soak.py.
"""

import json
import sys
import time
from pathlib import Path

from chaos_program import Files, note_process

from flinkbuf.common import Configuration, Duration, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkbuf.datastream.window import TumblingEventTimeWindows

HALF = 1_000_000_000  # numbers of each of the two splits: more than any run reads
KEYS, SPAN_MS = 97, 500
PAUSE_S, RECORDS_A_PAUSE = 0.02, 20  # a thousand records a second and subtask
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
RULE = ("step", 7)
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class NumberIsTime(TimestampAssigner):
    """Each number is a millisecond, in both splits."""

    def extract_timestamp(self, value, record_timestamp):
        return value % HALF


class Pace(MapFunction):
    """Passes numbers on at a rate that leaves the machine something to do; says in which process it runs."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.count = 0

    def open(self, context):
        note_process(self.directory)

    def map(self, number):
        self.count += 1
        if self.count % RECORDS_A_PAUSE == 0:
            time.sleep(PAUSE_S)
        return number % KEYS, number


class Sums(ProcessWindowFunction):
    """One result for each key and window."""

    def process(self, key, context, elements):
        numbers = [number for _, number in elements]
        yield json.dumps(["window", key, context.window().end, sum(numbers), len(numbers)])


class CountAndSum(AggregateFunction):
    """Of numbers."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


class EveryState(KeyedProcessFunction):
    """The same as the windows by hand, over states of five kinds, and a timer for each stretch of time."""

    def __init__(self, directory):
        self.directory = str(directory)

    def open(self, context):
        note_process(self.directory)
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.numbers = context.get_list_state(ListStateDescriptor("numbers", PAIR))
        self.counts = context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))
        self.total = context.get_reducing_state(
            ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
        )
        self.both = context.get_aggregating_state(AggregatingStateDescriptor("both", CountAndSum(), PAIR))

    def process_element(self, value, context):
        number = value[1]
        end = context.timestamp() // SPAN_MS * SPAN_MS + SPAN_MS
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.numbers.add((end, number))
        self.counts.put(end, (self.counts.get(end) or 0) + 1)
        self.total.add(number)
        self.both.add(number)
        if (count, self.total.get()) != tuple(self.both.get()):
            yield json.dumps(["broken", context.get_current_key(), count, self.total.get(), *self.both.get()])
        yield json.dumps(["count", context.get_current_key(), count])
        context.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp, context):
        numbers = list(self.numbers.get())
        ended = [number for end, number in numbers if end == timestamp]
        self.numbers.update([each for each in numbers if each[0] != timestamp])
        yield json.dumps(["timer", context.get_current_key(), timestamp, sum(ended), self.counts.get(timestamp)])
        self.counts.remove(timestamp)


class Rules(KeyedBroadcastProcessFunction):
    """What was broadcast once is known to every subtask that has seen a record with it, whatever happens."""

    def open(self, context):
        self.has_seen = context.get_state(ValueStateDescriptor("has seen", Types.BOOLEAN()))

    def process_element(self, value, context):
        step = context.get_broadcast_state(RULES).get(RULE[0])
        if step is None and self.has_seen.value():
            yield json.dumps(["broken", context.get_current_key(), "the broadcast state is gone"])
        if step is not None and not self.has_seen.value():
            self.has_seen.update(True)

    def process_broadcast_element(self, value, context):
        context.get_broadcast_state(RULES).put(*value)


def environment(directory, backend):
    """A checkpoint every second, and any number of restarts."""
    options = {
        "execution.target": "local",
        "rest.enabled": "true",  # rescaling is asked over it
        "pipeline.progress": "false",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "100 ms",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.timeout": "30 s",
        "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
        "execution.checkpointing.dir": str(Path(directory, "checkpoints")),
        "state.backend.type": backend,
        "pipeline.max-parallelism": "64",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(2)


def build(env, directory):
    """The program."""
    # Aligned: else one split gets ahead of the other for good, and the state of what waits for it grows by the hour.
    watermarks = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
        .with_timestamp_assigner(NumberIsTime())
        .with_watermark_alignment("soak", Duration.of_millis(4 * SPAN_MS), Duration.of_millis(100))
    )
    numbers = env.from_source(NumberSequenceSource(0, 2 * HALF - 1), watermarks, "numbers").uid("numbers")
    paced = numbers.set_parallelism(2).map(Pace(directory), PAIR).uid("pace").set_parallelism(2)
    keyed = paced.key_by(lambda value: value[0], Types.LONG())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(SPAN_MS))).process(Sums(), Types.STRING())
    states = keyed.process(EveryState(directory), Types.STRING()).uid("states")
    rules = env.from_collection([RULE], Types.TUPLE([Types.STRING(), Types.LONG()])).uid("rules").broadcast(RULES)
    ruled = keyed.connect(rules).process(Rules(), Types.STRING()).uid("ruled")
    windows.uid("windows").union(states, ruled).add_sink(Files(directory)).uid("files")


def write(path, content):
    """Write a file so that it is there whole or not at all."""
    other = path.with_suffix(".new")
    other.write_text(json.dumps(content))
    other.replace(path)


def status_of(client):
    checkpoints = client.details()["checkpoints"]
    latest = checkpoints["latest"]["completed"] or {}
    return {
        "restored": checkpoints["counts"]["restored"],
        "completed": checkpoints["counts"]["completed"],
        "failed": checkpoints["counts"]["failed"],
        "checkpoint_bytes": latest.get("state_size", 0),
        "rescaled": 0,
    }


def main(directory, backend):
    """Run it until a file says that it is to stop."""
    directory = Path(directory)
    env = environment(directory, backend)
    build(env, directory)
    client = env.execute_async("soak")
    result = client.get_job_execution_result()
    rescaled, rescaling, refusals = 0, None, []
    while not (directory / "stop").exists() and not result.done():
        order = directory / "rescale"
        if rescaling is None and order.exists():
            rescaling = client._job.rescale(int(order.read_text()))
            order.unlink()
        if rescaling is not None and rescaling.done():
            if rescaling.exception() is None:
                rescaled += 1
            else:
                refusals.append(str(rescaling.exception()))
            rescaling = None
        write(directory / "status", {**status_of(client), "rescaled": rescaled, "refusals": refusals[-3:]})
        time.sleep(0.2)
    if not result.done():
        client.cancel().result()
    write(directory / "ended", {"error": None if result.done() is False else repr(result.exception())})


if __name__ == "__main__":
    main(*sys.argv[1:])
