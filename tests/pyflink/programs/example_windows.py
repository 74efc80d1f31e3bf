"""What PyFlink's own examples of windows do, with data of ours."""

import tempfile
from pathlib import Path
from typing import Iterable  # noqa: UP035 - as programs of PyFlink say it

from pyflink.common import Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, WindowFunction
from pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountWindow,
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

VISITS = [("ann", 1), ("bob", 2), ("ann", 3), ("ann", 6), ("bob", 7), ("ann", 12), ("bob", 13), ("ann", 21)]
PARCELS = [(4, "van"), (1, "bike"), (2, "van"), (3, "bike"), (6, "van"), (5, "bike"), (9, "van"), (8, "bike")]


class SecondFieldIsTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class GapOfTheRecord(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple) -> int:
        return element[1]


class Counted(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        pass


class Loaded(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple]):
        return [(key, sum(each[0] for each in inputs))]


RESULT = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])


def _visits_of(env):
    stream = env.from_collection(VISITS, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondFieldIsTime())
    return stream.assign_timestamps_and_watermarks(strategy).key_by(lambda visit: visit[0], key_type=Types.STRING())


def _print(stream, env):
    stream.print()
    env.execute()


def _by_key(stream):
    """Which key's window of the same time comes first is up to Flink's heap of timers."""
    return sorted(stream.execute_and_collect(), key=lambda result: result[0])


def tumbling_time_window(env):
    windows = _visits_of(env).window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    return _by_key(windows.process(Counted(), RESULT))


def sliding_time_window(env):
    windows = _visits_of(env).window(SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2)))
    return _by_key(windows.process(Counted(), RESULT))


def session_with_gap_window(env):
    windows = _visits_of(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    _print(windows.process(Counted(), RESULT), env)


def session_with_dynamic_gap_window(env):
    windows = _visits_of(env).window(EventTimeSessionWindows.with_dynamic_gap(GapOfTheRecord()))
    _print(windows.process(Counted(), RESULT), env)


def tumbling_time_window_with_continuous_trigger(env):
    windows = _visits_of(env).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows = windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(5)))
    return _by_key(windows.process(Counted(), RESULT))


def tumbling_count_window(env):
    parcels = env.from_collection(PARCELS, type_info=Types.TUPLE([Types.INT(), Types.STRING()]))
    windows = parcels.key_by(lambda parcel: parcel[1], key_type=Types.STRING()).count_window(3)
    _print(windows.apply(Loaded(), Types.TUPLE([Types.STRING(), Types.INT()])), env)


def windows_into_files(env):
    """Each of these examples with --output."""
    with tempfile.TemporaryDirectory() as folder:
        windows = _visits_of(env).window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
        windows.process(Counted(), RESULT).sink_to(
            sink=FileSink.for_row_format(base_path=folder, encoder=Encoder.simple_string_encoder())
            .with_output_file_config(
                OutputFileConfig.builder().with_part_prefix("prefix").with_part_suffix(".ext").build()
            )
            .with_rolling_policy(RollingPolicy.default_rolling_policy())
            .build()
        )
        env.execute()
        files = [file for file in Path(folder).rglob("prefix-*.ext") if file.is_file()]
        return sorted(line for file in files for line in file.read_text().splitlines())
