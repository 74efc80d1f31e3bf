"""A whole job in a test: what came out, and time that one sets."""

import itertools
import threading

import pyarrow.compute as pc
import pytest

from flinkbuf.common import Configuration, Time, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.testing import JobHarness, ManualClock


@pytest.fixture
def env():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env


def three_and_no_end():
    yield from [1, 2, 3]
    while True:
        threading.Event().wait(0.01)
        yield 0


def test_outputs_of_several_streams_are_read_apart(env):
    numbers = env.from_collection([1, 2, 3])
    doubled, negated = numbers.map(lambda value: 2 * value), numbers.map(lambda value: -value)
    with JobHarness(env, doubled, negated) as job:
        job.wait()
        assert (job.output(doubled), job.output(negated)) == ([2, 4, 6], [-1, -2, -3])
        assert job.status is JobStatus.FINISHED


def test_timers_fire_when_the_test_sets_the_clock(env):
    class Remind(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(1_000 * value)

        def on_timer(self, timestamp, ctx):
            yield timestamp

    clock = ManualClock()
    numbers = env.add_source(three_and_no_end).filter(lambda value: value > 0)
    seen = numbers.map(lambda value: value)
    reminders = seen.key_by(lambda value: value).process(Remind())
    with JobHarness(env, seen, reminders, clock=clock) as job:
        job.wait_for(seen, 3)
        clock.advance_to(1_000)
        assert job.output(reminders) == []
        clock.advance_to(2_001)
        assert job.wait_for(reminders, 2) == [1_000, 2_000]
        clock.advance_to(9_000)
        assert job.wait_for(reminders, 3) == [1_000, 2_000, 3_000]


def test_windows_of_processing_time_end_when_the_test_says(env):
    clock = ManualClock(5_000)
    seen = env.add_source(three_and_no_end).filter(lambda value: value > 0)
    sums = (
        seen.key_by(lambda value: 0)
        .window(TumblingProcessingTimeWindows.of(Time.seconds(10)))
        .reduce(lambda a, b: a + b)
    )
    with JobHarness(env, seen, sums, clock=clock) as job:
        job.wait_for(seen, 3)
        assert job.output(sums) == []
        # The window's record may still be on its way when the first one is seen: time moves until all have come.
        for now in itertools.count(10_000, 10_000):
            clock.advance_to(now)
            if sum(job.output(sums)) == 6:
                break
            threading.Event().wait(0.01)


def test_small_batches_do_not_wait_for_a_clock_that_stands_still(env):
    left, right = (
        env.add_source(three_and_no_end).map(lambda value: (value,)).as_columns(f"{name} bigint", max_rows=1)
        for name in ("k", "r")
    )
    left = left.filter(pc.field("k") > 0)
    joined = left.key_by("k").join(right.key_by("r")).time_to_live(Time.hours(1)).as_records()
    with JobHarness(env, joined, clock=ManualClock()) as job:
        assert sorted(row.k for row in job.wait_for(joined, 3)) == [1, 2, 3]


def test_the_error_of_a_function_comes_out_of_wait(env):
    broken = env.from_collection([1]).map(lambda value: value // 0)
    with JobHarness(env, broken) as job, pytest.raises(ZeroDivisionError):
        job.wait()


def test_what_still_runs_is_cancelled_at_the_end_of_the_block(env):
    numbers = env.add_source(three_and_no_end)
    before = threading.active_count()
    with JobHarness(env, numbers) as job:
        job.wait_for(numbers, 3)
    assert job.status is JobStatus.CANCELED
    assert threading.active_count() == before


def test_who_waits_for_too_many_is_told_how_many_came(env):
    numbers = env.from_collection([1, 2]).map(lambda value: value)
    with JobHarness(env, numbers) as job:
        job.wait()
        with pytest.raises(TimeoutError, match="2 of 3 records have come out of 'Map' in 0.01 s; the job is FINISHED"):
            job.wait_for(numbers, 3, timeout_s=0.01)


def test_a_stream_that_was_not_named_is_refused(env):
    named = env.from_collection([1]).map(lambda value: value)
    other = named.map(lambda value: value)
    with JobHarness(env, named) as job, pytest.raises(ValueError, match="was not given 'Map'"):
        job.output(other)


def test_a_job_is_stopped_and_goes_on_from_its_savepoint(tmp_path):
    def begin(path=None):
        options = {} if path is None else {"execution.state-recovery.path": path}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        env.set_parallelism(1)
        return env

    limit, env = 400, begin()
    first = env.from_collection(range(limit)).map(lambda value: threading.Event().wait(0.001) or value)
    with JobHarness(env, first) as job:
        job.wait_for(first, 20)
        path = job.stop_with_savepoint(str(tmp_path))
        assert job.status is JobStatus.FINISHED
        taken = job.output(first)
    assert path.startswith(str(tmp_path)) and 20 <= len(taken) < limit
    env = begin(path)
    second = env.from_collection(range(limit)).map(lambda value: value)
    with JobHarness(env, second) as job:
        job.wait()
        rest = job.output(second)
    assert taken + rest == list(range(limit))


@pytest.mark.parametrize("is_drain", [False, True])
def test_windows_fire_before_the_savepoint_of_a_job_that_will_not_go_on(tmp_path, env, is_drain):
    class AtNought(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return 0

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AtNought())
    stream = env.add_source(three_and_no_end)
    timed = stream.assign_timestamps_and_watermarks(strategy).key_by(lambda value: 0)
    windows = timed.window(TumblingEventTimeWindows.of(Time.hours(1))).reduce(lambda a, b: a + b)
    with JobHarness(env, stream, windows) as job:
        job.wait_for(stream, 5)
        job.stop_with_savepoint(str(tmp_path), drain=is_drain)
        assert job.output(windows) == ([6] if is_drain else [])


def test_a_savepoint_leaves_the_job_running(tmp_path, env):
    stream = env.add_source(three_and_no_end)
    with JobHarness(env, stream) as job:
        job.wait_for(stream, 3)
        path = job.savepoint(str(tmp_path))
        assert (tmp_path / path.rpartition("/")[2] / "_metadata").exists()
        assert job.status is JobStatus.RUNNING
