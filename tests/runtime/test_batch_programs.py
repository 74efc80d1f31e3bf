"""Whole programs in batch: sources with event time, keyed operators one behind the other, async functions, sinks.

Flink: SortingBoundedInputITCase, BatchExecutionFileSinkITCase, SinkITCase.
"""

import pytest

from flinkbuf.common import Configuration, Duration, Encoder, Time, Types, WatermarkStrategy
from flinkbuf.datastream import AsyncDataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import BucketAssigner, FileSink
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.functions import AsyncFunction, KeyedProcessFunction, ProcessFunction
from flinkbuf.datastream.window import SlidingEventTimeWindows
from flinkbuf.streaming.sinks.two_phase_commit import TwoPhaseCommitSinkFunction

PAIR = Types.TUPLE([Types.INT(), Types.LONG()])


@pytest.fixture(params=[1, 2])
def env(request):
    """In threads; tasks read while others write, so that nothing but this layer is tested."""
    settings = Configuration().set_string("execution.target", "embedded")
    settings.set_string("execution.batch-shuffle-mode", "ALL_EXCHANGES_PIPELINED")
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return environment.set_parallelism(request.param)


class Itself:
    def extract_timestamp(self, value, record_timestamp):
        return value


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(Itself())


def numbers(env, count, strategy=STRATEGY):
    return env.from_source(NumberSequenceSource(1, count), strategy, "numbers", Types.LONG())


def counted(env, count=1000):
    """How many numbers have which last digit."""
    digits = numbers(env, count).map(lambda number: (number % 10, number), PAIR)
    return digits.key_by(lambda pair: pair[0], Types.INT()).reduce(lambda one, two: (one[0], one[1] + two[1]))


SUMS = {digit: sum(range(digit or 10, 1001, 10)) for digit in range(10)}


def test_a_source_gives_timestamps_and_no_watermarks(env):
    class Show(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp(), ctx.timer_service().current_watermark()

    with numbers(env, 100).process(Show()).execute_and_collect() as shown:
        assert sorted(shown) == [(number, number, -(2**63)) for number in range(1, 101)]


def test_a_result_of_each_key_is_the_input_of_the_next(env):
    halves = counted(env).map(lambda pair: (pair[0] // 5, pair[1]), PAIR)
    sums = halves.key_by(lambda pair: pair[0], Types.INT()).sum(1)
    with sums.execute_and_collect() as results:
        assert sorted(results) == [
            (half, sum(total for digit, total in SUMS.items() if digit // 5 == half)) for half in (0, 1)
        ]


def test_windows_hold_all_of_their_records_whatever_the_order(env):
    backwards = (
        numbers(env, 100).map(lambda number: 101 - number, Types.LONG()).assign_timestamps_and_watermarks(STRATEGY)
    )
    windows = backwards.key_by(lambda number: number % 2, Types.INT()).window(
        SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))
    )
    with windows.reduce(lambda one, two: one + two).execute_and_collect() as results:
        wanted = [
            sum(number for number in range(start, start + 20) if number % 2 == parity and 1 <= number <= 100)
            for start in range(-10, 101, 10)
            for parity in (0, 1)
        ]
        assert sorted(results) == sorted(each for each in wanted if each)


def test_async_functions_come_to_their_end(env):
    class Negative(AsyncFunction):
        async def async_invoke(self, value):
            return [-value]

        def timeout(self, value):
            return [0]

    made = AsyncDataStream.unordered_wait(numbers(env, 200), Negative(), Time.seconds(20), 10, Types.LONG())
    with made.execute_and_collect() as results:
        assert sorted(results) == list(range(-200, 0))


def test_files_are_finished_when_the_program_is(env, tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    counted(env).map(str, Types.STRING()).sink_to(sink)
    env.execute("files")
    names = [path.name for path in tmp_path.iterdir()]
    assert names and all(name.startswith("part-") for name in names)
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(str(pair) for pair in SUMS.items())


class Folder(TwoPhaseCommitSinkFunction):
    """A transaction is a list, which commit writes to a file of its own."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def begin_transaction(self):
        return []

    def invoke(self, transaction, value, context):
        transaction.append(value)

    def pre_commit(self, transaction):
        assert not list(self.folder.glob(f"{id(transaction)}"))

    def commit(self, transaction):
        (self.folder / f"{id(transaction)}").write_text("".join(f"{value}\n" for value in transaction))

    def abort(self, transaction):
        raise AssertionError("nothing failed")


def test_transactions_are_committed_once_at_the_end(env, tmp_path):
    counted(env).add_sink(Folder(tmp_path))
    env.execute("transactions")
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(str(pair) for pair in SUMS.items())


def test_sorted_inputs_of_a_program_go_through_files(env):
    class Order(KeyedProcessFunction):
        def open(self, runtime_context):
            self.last = None

        def process_element(self, value, ctx):
            if self.last is None or self.last[0] != ctx.get_current_key():
                yield ctx.get_current_key(), value
            else:
                assert self.last[1] < ctx.timestamp()
            self.last = ctx.get_current_key(), ctx.timestamp()

    env.configure(Configuration().set_string("execution.sorted-inputs.memory", "64kb"))
    backwards = numbers(env, 20_000).map(lambda number: 20_001 - number, Types.LONG())
    keyed = backwards.assign_timestamps_and_watermarks(STRATEGY).key_by(lambda number: number % 100, Types.INT())
    with keyed.process(Order()).execute_and_collect() as results:
        assert sorted(results) == [(key, key or 100) for key in range(100)]
