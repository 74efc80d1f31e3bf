"""Sources and sinks in whole embedded jobs."""

import functools
import os
import threading
import time

import pytest
from support.waiting import wait_until

from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.connectors.file_system import (
    BucketAssigner,
    Encoder,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
)
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.runtime.graph.transformation import OperatorTransformation, PartitionTransformation
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.collect import Collector
from flinkbuf.streaming.sinks.sink_factories import (
    CollectSinkFactory,
    PrintSinkFactory,
    SinkWriterFactory,
    sink_factory_of,
)
from flinkbuf.streaming.sources.file_format import StreamFormat
from flinkbuf.streaming.sources.source import Source
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory, source_factory_of
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
from flinkbuf.types.duration import Duration


def job_of(source, sink, parallelism=1, function=None, on_end=(), settings=None):
    """source -> map -> rebalance -> sink."""
    options = {"parallelism": 1} if not hasattr(source, "create_coordinator") else {}
    stream = OperatorTransformation("source", None, [], factory=source, is_source=True, **options)
    if function is not None:
        stream = OperatorTransformation("map", None, [stream], factory=functools.partial(MapOperator, function))
    spread = PartitionTransformation("spread", None, [stream], partitioner="rebalance", ship_strategy="REBALANCE")
    end = OperatorTransformation("sink", None, [spread], factory=sink, is_sink=True)
    graph = build_job_graph(build_stream_graph([end], GraphSettings("connectors", parallelism=parallelism)))
    return RunningJob(graph, settings, on_end=on_end)


def run(*arguments, **options):
    job = job_of(*arguments, **options)
    job.start()
    job.wait(60)
    assert job.status is JobStatus.FINISHED


def text_sink(folder):
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return SinkWriterFactory(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())


def lines_source(folder, split_size=1_000):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    return SourceOperatorFactory(builder.set_file_enumerator(FileEnumeratorProvider(split_size)).build())


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_sequence_goes_into_files_and_comes_out_of_them(tmp_path, parallelism):
    run(SourceOperatorFactory(NumberSequenceSource(1, 5_000)), text_sink(tmp_path), parallelism)
    names = os.listdir(tmp_path)
    assert len(names) == parallelism and all(name.startswith("part-") for name in names)
    out = []
    run(lines_source(tmp_path), sink_factory_of(out.append), parallelism, function=int)
    assert sorted(out) == list(range(1, 5_001))


def test_a_failed_job_shows_no_file(tmp_path):
    source = SourceOperatorFactory(NumberSequenceSource(1, 5_000))
    with pytest.raises(ZeroDivisionError):
        run(source, text_sink(tmp_path), 2, function=lambda value: 1 // (4_000 - value))
    assert all(name.startswith(".part-") for name in os.listdir(tmp_path))


def test_a_missing_directory_ends_the_job_at_its_start(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(lines_source(tmp_path / "nowhere"), sink_factory_of(print))


class Numbers:
    """A source with a thread of its own; endless if it has no count."""

    def __init__(self, count=None):
        self.count, self.is_running = count, True

    def run(self, context):
        number = 0
        while self.is_running and number != self.count:
            context.collect_with_timestamp(number, number)
            number += 1

    def cancel(self):
        self.is_running = False


def test_a_source_function_feeds_a_job():
    out = []
    run(source_factory_of(Numbers(20_000)), sink_factory_of(out.append), 2)
    assert sorted(out) == list(range(20_000))


def test_a_generator_of_the_program_feeds_a_job():
    out, numbers = [], (number for number in range(1_000))
    run(source_factory_of(numbers), sink_factory_of(out.append))
    assert out == list(range(1_000))


class FailingSource:
    def run(self, context):
        context.collect(1)
        raise OSError("the line is dead")


def failing_generator():
    yield 1
    raise OSError("the line is dead")


class FailingReader(Source):
    def create_enumerator(self, context):
        raise OSError("the line is dead")


@pytest.mark.parametrize(
    "source",
    [
        source_factory_of(FailingSource()),
        source_factory_of(failing_generator),
        SourceOperatorFactory(FailingReader()),
        SourceOperatorFactory(DataGeneratorSource(lambda number: 1 // (50 - number), 100)),
    ],
    ids=["run", "generator", "enumerator", "reader"],
)
def test_an_error_of_a_source_is_the_job_s(source):
    with pytest.raises((OSError, ZeroDivisionError), match="the line is dead|division"):
        run(source, sink_factory_of(lambda value: None), 2)


def test_an_error_of_an_enumerator_says_of_which_source():
    with pytest.raises(OSError, match="the line is dead") as caught:
        run(SourceOperatorFactory(FailingReader()), sink_factory_of(lambda value: None))
    assert caught.value.operator_name.startswith("Source: ")


def refuse(value):
    raise KeyError(value)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_error_of_a_sink_is_the_job_s_and_ends_endless_sources(parallelism):
    with pytest.raises(KeyError):
        run(source_factory_of(Numbers()), sink_factory_of(refuse), parallelism)


def collected(source, **options):
    collector = Collector(**options)
    job = job_of(source, CollectSinkFactory(collector), on_end=[collector.finish])
    collector.on_close = job.cancel
    job.start()
    return job, collector


def test_records_are_collected_while_the_job_runs_and_closing_cancels_it():
    job, collector = collected(source_factory_of(Numbers()), capacity=10)
    assert [next(collector) for _ in range(100)] == list(range(100))
    assert job.status is JobStatus.RUNNING
    collector.close()
    with pytest.raises(JobCanceledError):
        job.wait(20)


def test_a_limit_ends_an_endless_job():
    job, collector = collected(source_factory_of(Numbers()))
    assert collector.take(5) == [0, 1, 2, 3, 4]
    with pytest.raises(JobCanceledError):
        job.wait(20)


def test_a_job_whose_records_nobody_reads_can_be_cancelled():
    job, _ = collected(source_factory_of(Numbers()), capacity=5)
    time.sleep(0.1)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(20)


def test_the_error_of_a_job_comes_out_of_what_it_collects():
    _, collector = collected(source_factory_of(failing_generator))
    with pytest.raises(OSError, match="the line is dead"):
        list(collector)


def test_printed_lines_carry_their_subtask(capsys):
    run(SourceOperatorFactory(NumberSequenceSource(1, 6)), PrintSinkFactory(None, "n"), 2)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split("> ")[1] for line in lines) == list("123456")
    assert {line.split("> ")[0] for line in lines} == {"n:1", "n:2"}


def test_sources_of_a_group_wait_for_each_other():
    """Both have a thousand records a second of event time; neither runs away."""
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(lambda value, timestamp: value)
        .with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(5))
    )
    source = SourceOperatorFactory(NumberSequenceSource(0, 20_000), strategy)
    out = []
    settings = ExecutionSettings(auto_watermark_interval_ms=5)
    run(source, sink_factory_of(out.append), 2, settings=settings)
    assert sorted(out) == list(range(20_001))


def test_a_watched_directory_feeds_a_job_until_it_is_cancelled(tmp_path):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    source = SourceOperatorFactory(builder.monitor_continuously(Duration.of_millis(20)).build())
    job, collector = collected(source)
    for number in range(3):
        hidden = tmp_path / f".{number}"
        hidden.write_text(f"{number}\n")
        hidden.rename(tmp_path / str(number))
        assert next(collector) == str(number)
    collector.close()
    with pytest.raises(JobCanceledError):
        job.wait(20)


def test_jobs_leave_no_thread_and_no_file(tmp_path):
    def once(number):
        folder = tmp_path / str(number)
        run(source_factory_of(Numbers(100)), text_sink(folder), 2)
        run(lines_source(folder), sink_factory_of(lambda value: None), 2)
        job, collector = collected(source_factory_of(Numbers()))
        collector.take(3)
        with pytest.raises(JobCanceledError):
            job.wait(20)

    def left():
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    once(0)
    before = left()
    for number in range(1, 15):
        once(number)
    wait_until(lambda: left() <= before)
