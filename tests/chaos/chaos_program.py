"""A keyed job with windows, timers and a two-phase sink on files, slow enough to be killed as often as one likes.

``python chaos_program.py DIRECTORY`` runs it on Spark's local-cluster, in a driver of its own.
"""

import json
import os
import sys
import time
import uuid
from pathlib import Path

from flinkbuf.common import Configuration, Duration, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.functions import TwoPhaseCommitSinkFunction
from flinkbuf.datastream.state import MapStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.processes import status_of

COUNT, KEYS, SPAN_MS = 3_000, 7, 100
GO_ON = "go-on"  # a file: from then on it hurries


def note_process(directory):
    """Have `workers` find the process that this runs in."""
    pids = Path(directory, "pids")
    pids.mkdir(exist_ok=True)
    (pids / str(os.getpid())).write_text(str(status_of(os.getpid()).started))


def workers(directory):
    """Processes that have run tasks and are still there; others may have their numbers by now."""
    noted = [(int(path.name), path.read_text()) for path in Path(directory, "pids").glob("*")]
    return sorted(pid for pid, started in noted if (now := status_of(pid)) is not None and str(now.started) == started)


class Pace(MapFunction):
    """Passes numbers on, more and more slowly until it may hurry; says in which process it runs."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.hurries = False

    def open(self, context):
        note_process(self.directory)

    def map(self, number):
        if not self.hurries:
            self.hurries = Path(self.directory, GO_ON).exists()
            left = COUNT // 2 - number % (COUNT // 2)  # two splits are read at a time
            time.sleep(0.0 if self.hurries else 0.002 if left > COUNT // 4 else min(1.0, 40 / left))
        return number % KEYS, number


class NumberIsTime(TimestampAssigner):
    """Each number is a millisecond."""

    def extract_timestamp(self, value, record_timestamp):
        return value % (COUNT // 2)


class Sums(ProcessWindowFunction):
    """One result for each key and window."""

    def process(self, key, context, elements):
        numbers = [number for _, number in elements]
        yield json.dumps(["window", key, context.window().start, sum(numbers), len(numbers)])


class Counts(KeyedProcessFunction):
    """The same by hand: state in a map, and a timer for each stretch of time."""

    def open(self, context):
        self.counts = context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, value, context):
        end = context.timestamp() // SPAN_MS * SPAN_MS + SPAN_MS
        self.counts.put(end, (self.counts.get(end) or 0) + 1)
        context.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp, context):
        yield json.dumps(["timer", context.get_current_key(), timestamp, self.counts.get(timestamp)])
        self.counts.remove(timestamp)


class Files(TwoPhaseCommitSinkFunction):
    """A file for each transaction; its commit is a rename."""

    def __init__(self, directory):
        super().__init__()
        self.directory = str(directory)

    def open(self, context):
        for name in ("pending", "committed"):
            Path(self.directory, name).mkdir(exist_ok=True)

    def begin_transaction(self):
        return uuid.uuid4().hex

    def invoke(self, transaction, value, context):
        with open(f"{self.directory}/pending/{transaction}", "a") as file:
            file.write(value + "\n")

    def pre_commit(self, transaction):
        """What lies in a file outlives its process; nobody pulls the plug here."""

    def commit(self, transaction):
        path = Path(self.directory, "pending", transaction)
        if path.exists():
            path.rename(Path(self.directory, "committed", transaction))

    def abort(self, transaction):
        Path(self.directory, "pending", transaction).unlink(missing_ok=True)


def environment(directory, target=None):
    """Checkpoints every 100 ms, and any number of restarts."""
    options = {
        "pipeline.progress": "false",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100000",
        "restart-strategy.fixed-delay.delay": "10 ms",
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.tolerable-failed-checkpoints": "1000",
        "execution.checkpointing.dir": str(Path(directory, "checkpoints")),
    }
    if target is not None:
        options["execution.target"] = target
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(2)


def build(env, directory):
    """The program."""
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(
        NumberIsTime()
    )
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_source(NumberSequenceSource(0, COUNT - 1), watermarks, "numbers").uid("numbers")
    keyed = numbers.map(Pace(directory), pair).uid("pace").key_by(lambda value: value[0])
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(SPAN_MS))).process(Sums(), Types.STRING())
    counts = keyed.process(Counts(), Types.STRING()).uid("counts")
    windows.uid("windows").union(counts).add_sink(Files(directory)).uid("files")


def committed(directory):
    """All that anybody can read, sorted."""
    files = Path(directory, "committed").glob("*")
    return sorted(line for file in files for line in file.read_text().splitlines())


def main(directory):
    """On Spark, with executors that are processes of their own."""
    import pyspark

    import flinkbuf

    home = str(Path(flinkbuf.__file__).parent.parent)
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([home, str(Path(__file__).parent)]),
        "spark.deploy.maxExecutorRetries": "-1",
    }
    conf = pyspark.SparkConf().setMaster("local-cluster[2,1,512]").setAppName("chaos").setAll(settings.items())
    context = pyspark.SparkContext(conf=conf)
    env = environment(directory, "spark")
    build(env, directory)
    env.execute("chaos")
    context.stop()


if __name__ == "__main__":
    main(sys.argv[1])
