"""What PyFlink's own examples of streams do, with data of ours: records of JSON, keyed state, timers, words, calls."""

import asyncio
import functools
import json
import tempfile
from pathlib import Path
from typing import List  # noqa: UP035 - as programs of PyFlink say it

from pyflink.common import Duration, Encoder, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CheckpointingMode,
    RuntimeContext,
    RuntimeExecutionMode,
    async_retry_predicates,
)
from pyflink.datastream.connectors import FileSink, FileSource, OutputFileConfig, RollingPolicy, StreamFormat
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.functions import RuntimeContext as ContextOfFunctions
from pyflink.datastream.state import ValueStateDescriptor

STATIONS = [
    (1, '{"station": "Oslo", "level": 4, "place": {"river": "Akerselva", "country": "Norway"}}'),
    (2, '{"station": "Bergen", "level": 11, "place": {"river": "Nesttun", "country": "Norway"}}'),
    (3, '{"station": "Turku", "level": 7, "place": {"river": "Aura", "country": "Finland"}}'),
    (4, '{"station": "Voss", "level": 2, "place": {"river": "Vosso", "country": "Norway"}}'),
]
READINGS = [("north", 2.5), ("south", 8.0), ("north", 1.0), ("south", 0.5), ("south", 4.0), ("north", 7.25)]
TIMED_READINGS = [
    (2000, "north", 2.5),
    (5000, "south", 8.0),
    (4000, "north", 1.0),
    (3000, "south", 0.5),
    (9000, "north", 7.25),
    (4000, "south", 4.0),
    (12000, "south", 1.5),
]
LINES = ["rain on the hill and rain on the sea", "the rain that no hill has seen", "a sea of rain"]


class RunningTotal(KeyedProcessFunction):
    def __init__(self):
        self.total = None

    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        before = self.total.value()
        after = value[1] if before is None else before + value[1]
        self.total.update(after)
        yield value[0], after


class TotalLater(KeyedProcessFunction):
    def __init__(self):
        self.total = None

    def open(self, runtime_context: ContextOfFunctions):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.total.update((self.total.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 3000)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), self.total.value()


class FirstFieldIsTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return int(value[0])


class Rated(AsyncFunction[Row, str]):
    """A service that is busy at the first call for each even number, and that never answers for number 5."""

    def __init__(self):
        self.asked = set()

    def open(self, runtime_context: RuntimeContext):
        self.is_open = True

    def close(self):
        self.is_open = False

    async def async_invoke(self, value: Row) -> List[str]:  # noqa: UP006
        await asyncio.sleep(0.01)
        if value.number == 5:
            await asyncio.sleep(60)
        if value.number % 2 == 0 and value.number not in self.asked:
            self.asked.add(value.number)
            raise TimeoutError
        return [json.dumps({"number": value.number, "text": value.text, "rated": self.is_open})]

    def timeout(self, value: Row) -> List[str]:  # noqa: UP006
        return [json.dumps({"number": value.number, "text": value.text, "rated": None})]


def _show(stream, env):
    stream.print()
    env.execute()


def _raised(record):
    found = json.loads(record.report)
    found["level"] += 1
    return record.id, json.dumps(found)


def records_of_json_text(env):
    """basic_operations: fields by name, and several jobs of one environment."""
    stream = env.from_collection(
        collection=STATIONS, type_info=Types.ROW_NAMED(["id", "report"], [Types.INT(), Types.STRING()])
    )
    _show(stream.map(_raised), env)
    _show(stream.filter(lambda record: record.id == 3).map(_raised), env)
    levels = stream.map(lambda record: (_place(record)["country"], json.loads(record.report)["level"]))
    _show(levels.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])), env)


def _place(record):
    return json.loads(record.report)["place"]


def values_of_json(env):
    """process_json_data: dicts go from function to function as they are."""

    def lowered(record):
        found = json.loads(record[1])
        found["level"] -= 1
        return record[0], found

    def is_in_norway(record):
        return "Norway" in record[1]["place"]["country"]

    env.from_collection(collection=STATIONS).map(lowered).filter(is_in_norway).print()
    env.execute()


def totals_in_keyed_state(env):
    """state_access."""
    env.from_collection(collection=READINGS).key_by(lambda value: value[0]).process(RunningTotal()).print()
    env.execute()


def totals_by_timers(env):
    """event_time_timer; which key's timer of the same time comes first is up to Flink's heap of timers."""
    stream = env.from_collection(collection=TIMED_READINGS)
    stream = stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
            FirstFieldIsTime()
        )
    )
    totals = stream.key_by(lambda value: value[1]).process(TotalLater())
    return sorted(totals.execute_and_collect(), key=lambda total: total[0])


def _counted(lines):
    def split(line):
        yield from line.split()

    return (
        lines.flat_map(split)
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )


def words_of_a_collection(env):
    """word_count without arguments; a batch job gives one result for each key."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    _counted(env.from_collection(LINES)).print()
    env.execute()


def words_of_files(env):
    """word_count with --input and --output."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder, "given"), Path(folder, "taken")
        given.mkdir()
        (given / "lines.txt").write_text("\n".join(LINES) + "\n")
        lines = env.from_source(
            source=FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(given))
            .process_static_file_set()
            .build(),
            watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
            source_name="file_source",
        )
        _counted(lines).sink_to(
            sink=FileSink.for_row_format(base_path=str(taken), encoder=Encoder.simple_string_encoder())
            .with_output_file_config(
                OutputFileConfig.builder().with_part_prefix("prefix").with_part_suffix(".ext").build()
            )
            .with_rolling_policy(RollingPolicy.default_rolling_policy())
            .build()
        )
        env.execute()
        files = [file for file in taken.rglob("*") if file.is_file()]
        written = sorted(line for file in files for line in file.read_text().splitlines())
        return [
            written,
            sorted({(file.name.partition("-")[0], file.suffix, file.name.startswith(".")) for file in files}),
        ]


def calls_with_retries(env):
    """remote_model_inference, whose source here is a collection."""
    env.enable_checkpointing(30000, CheckpointingMode.EXACTLY_ONCE)
    comments = env.from_collection(
        [Row(number, f"comment {number}") for number in range(1, 7)],
        Types.ROW_NAMED(["number", "text"], [Types.INT(), Types.STRING()]),
    )
    retry = AsyncRetryStrategy.fixed_delay(
        max_attempts=100,
        backoff_time_millis=50,
        result_predicate=None,
        exception_predicate=functools.partial(
            async_retry_predicates.exception_type_predicate, expected_error_type=TimeoutError
        ),
    )
    rated = AsyncDataStream.unordered_wait_with_retry(
        data_stream=comments,
        async_function=Rated(),
        timeout=Time.seconds(3),
        async_retry_strategy=retry,
        capacity=1000,
        output_type=Types.STRING(),
    )
    return sorted(rated.execute_and_collect())
