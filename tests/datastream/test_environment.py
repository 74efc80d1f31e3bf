"""Environments: settings by Flink's keys, sources, and programs that run."""

import io
import json
import os
import subprocess
import sys
import threading
import time
import warnings
import zipfile

import pytest

from flinkbuf.common import Configuration, Duration, JobStatus, RestartStrategies, Types, WatermarkStrategy
from flinkbuf.common.execution_config import ExecutionConfig, default_parallelism
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    CoFlatMapFunction,
    CoMapFunction,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FlatMapFunction,
    JobManagerCheckpointStorage,
    KeySelector,
    MapFunction,
    MemorySize,
    PredefinedOptions,
    ProcessFunction,
    RuntimeExecutionMode,
    SinkFunction,
    SlotSharingGroup,
    SourceFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from flinkbuf.datastream.connectors.base import Boundedness
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.connectors.file_system import FileSource, StreamFormat
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.execution_mode import is_bounded
from flinkbuf.datastream.functions import ParallelSourceFunction
from flinkbuf.datastream.program.job_start import start_of
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.runtime.picture.job_archive import archived_jobs, read_archived_job
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.streaming.sinks.sink import Sink, SinkWriter


def configured(**values):
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)


def test_defaults_are_pyflinks():
    env = StreamExecutionEnvironment.get_execution_environment()
    config, checkpoints = env.get_config(), env.get_checkpoint_config()
    assert env.get_parallelism() == env.get_default_local_parallelism() == default_parallelism()
    assert (env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled()) == (-1, 100, True)
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert (env.get_checkpoint_interval(), env.get_checkpointing_mode()) == (-1, CheckpointingMode.AT_LEAST_ONCE)
    assert env.is_changelog_state_backend_enabled() is None and env.get_default_savepoint_directory() is None
    assert not env.is_unaligned_checkpoints_enabled() and not env.is_force_unaligned_checkpoints()
    assert (config.get_auto_watermark_interval(), config.get_latency_tracking_interval()) == (200, 0)
    assert (config.get_task_cancellation_interval(), config.get_task_cancellation_timeout()) == (30_000, 180_000)
    assert config.is_closure_cleaner_enabled() and not config.is_object_reuse_enabled()
    assert config.has_auto_generated_uids_enabled() and config.get_global_job_parameters() == {}
    assert (checkpoints.get_checkpoint_timeout(), checkpoints.get_min_pause_between_checkpoints()) == (600_000, 0)
    assert checkpoints.get_max_concurrent_checkpoints() == 1 and checkpoints.is_fail_on_checkpointing_errors()
    assert not checkpoints.is_externalized_checkpoints_enabled() and not checkpoints.is_checkpointing_enabled()
    assert checkpoints.get_alignment_timeout() == Duration.of_millis(0)


def test_a_notebook_says_what_each_object_is(env):
    words = env.set_parallelism(2).from_collection(["to", "be"])
    lengths = words.map(len, Types.INT())
    assert repr(lengths) == "<DataStream 'Map' of Types.INT()>"
    assert repr(lengths.key_by(str)).startswith("<KeyedStream 'Partition' of Types.ROW_NAMED(")
    assert repr(lengths.print()) == "<DataStreamSink 'Print to Std. Out'>"
    assert repr(env) == "<StreamExecutionEnvironment of 2 operators, parallelism 2>"
    client = env.execute_async()
    result = client.get_job_execution_result().result()
    assert repr(client) == f"<JobClient of job {result.get_job_id()}>"
    assert repr(result) == f"<JobExecutionResult of job {result.get_job_id()}: {result.get_net_runtime()} ms>"


def test_settings_are_read_from_flinks_keys():
    env = configured(
        **{
            "parallelism.default": "3",
            "execution.buffer-timeout.interval": "50 ms",
            "pipeline.auto-watermark-interval": "7 ms",
            "pipeline.max-parallelism": "64",
            "pipeline.operator-chaining.enabled": "false",
            "metrics.latency.interval": "1 s",
            "pipeline.global-job-parameters": "a:1,b:'x,y'",
        }
    )
    config = env.get_config()
    assert (env.get_parallelism(), env.get_buffer_timeout(), env.get_max_parallelism()) == (3, 50, 64)
    assert (config.get_auto_watermark_interval(), config.get_latency_tracking_interval()) == (7, 1000)
    assert not env.is_chaining_enabled() and config.get_global_job_parameters() == {"a": "1", "b": "x,y"}
    settings = env._execution_settings()
    assert (settings.auto_watermark_interval_ms, settings.latency_tracking_interval_ms) == (7, 1000)
    assert settings.job_parameters == {"a": "1", "b": "x,y"}


def test_a_wrong_value_is_found_where_it_is_set():
    with pytest.raises(ValueError, match="Could not parse value 'x' for key 'parallelism.default'"):
        configured(**{"parallelism.default": "x"})
    env = configured()
    with pytest.raises(ValueError, match="task.cancellation.interval"):
        env.configure(Configuration.from_dict({"task.cancellation.interval": "soon", "parallelism.default": "9"}))
    assert env.get_parallelism() == default_parallelism()


def test_configure_and_setters_meet_in_one_configuration(env):
    env.configure(Configuration.from_dict({"parallelism.default": "5"}))
    assert env.get_parallelism() == env.get_config().get_parallelism() == 5
    env.get_config().set_parallelism(6)
    assert env.get_parallelism() == 6 and env.set_parallelism(-1).get_parallelism() == default_parallelism()
    env.set_default_local_parallelism(7)
    assert env.get_parallelism() == env.get_default_local_parallelism() == 7
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1 and env.set_buffer_timeout(5).get_buffer_timeout() == 5
    assert env.set_max_parallelism(64).get_max_parallelism() == 64
    assert not env.disable_operator_chaining().is_chaining_enabled()
    assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled()
    assert env.set_default_savepoint_directory("/tmp/s").get_default_savepoint_directory() == "/tmp/s"
    assert env.get_config() == env.get_config() and hash(env.get_config()) == hash(env.get_config())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda env: env.set_parallelism(0), "Parallelism must be at least one"),
        (lambda env: env.set_max_parallelism(0), "maxParallelism is out of bounds"),
        (lambda env: env.set_max_parallelism(40000), "Found: 40000"),
        (lambda env: env.set_buffer_timeout(-2), "must be non-negative or -1"),
        (lambda env: env.enable_checkpointing(5), "larger than or equal to 10 ms"),
        (lambda env: env.set_default_local_parallelism(0), "at least one"),
        (lambda env: env.get_config().set_auto_watermark_interval(-5), "must not be negative"),
        (lambda env: env.get_config().set_max_parallelism(0), "must be greater than 0"),
        (lambda env: env.get_config().set_task_cancellation_timeout(-1), "Timeout needs to be >= 0"),
        (lambda env: env.get_checkpoint_config().set_checkpoint_timeout(5), "Checkpoint timeout"),
        (lambda env: env.get_checkpoint_config().set_min_pause_between_checkpoints(-1), "Pause value"),
        (lambda env: env.get_checkpoint_config().set_max_concurrent_checkpoints(0), "at least one"),
        (lambda env: env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(-1), "non-negative"),
        (lambda env: env.execute(), "No operators defined in streaming topology"),
        (lambda env: env.get_execution_plan(), "No operators defined in streaming topology"),
        (lambda env: (env.from_collection([1]), env.execute()), "No operators defined in streaming topology"),
    ],
)
def test_what_makes_no_sense_is_refused(env, call, text):
    with pytest.raises(ValueError, match=text):
        call(env)


def test_checkpoint_settings_are_kept():
    config = CheckpointConfig().set_checkpoint_interval(500).set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE and config.is_checkpointing_enabled()
    config.set_checkpoint_timeout(1000).set_min_pause_between_checkpoints(3).set_max_concurrent_checkpoints(2)
    assert (config.get_checkpoint_timeout(), config.get_min_pause_between_checkpoints()) == (1000, 3)
    assert config.get_max_concurrent_checkpoints() == 2
    assert config.set_fail_on_checkpointing_errors(False).get_tolerable_checkpoint_failure_number() == 2**31 - 1
    assert config.set_fail_on_checkpointing_errors(True).is_fail_on_checkpointing_errors()
    retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    assert config.set_externalized_checkpoint_retention(retention).get_externalized_checkpoint_retention() is retention
    assert config.is_externalized_checkpoints_enabled()
    assert not config.enable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()  # needs EXACTLY_ONCE
    config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    assert config.is_unaligned_checkpoints_enabled()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    config.set_alignment_timeout(Duration.of_seconds(3))
    assert config.get_aligned_checkpoint_timeout() == Duration.of_seconds(3)


def test_checkpointing_is_enabled_with_its_mode(env):
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    assert (env.get_checkpoint_interval(), env.get_checkpointing_mode()) == (500, CheckpointingMode.AT_LEAST_ONCE)
    assert env.enable_checkpointing(600).get_checkpoint_interval() == 600


def test_execution_settings_are_kept():
    config = ExecutionConfig().set_latency_tracking_interval(-2).set_task_cancellation_interval(5)
    assert (config.get_latency_tracking_interval(), config.get_task_cancellation_interval()) == (0, 5)
    assert config.set_global_job_parameters({"a": 1, "b:c": None}).get_global_job_parameters() == {
        "a": "1",
        "b:c": "None",
    }
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    assert config.enable_closure_cleaner().is_closure_cleaner_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert not config.disable_object_reuse().is_object_reuse_enabled()
    assert not config.disable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.enable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()
    assert config.enable_generic_types().disable_force_avro().disable_force_kryo() is config
    assert not (config.has_generic_types_disabled() or config.is_force_avro_enabled() or config.is_force_kryo_enabled())
    kryo = (config.get_default_kryo_serializer_classes(), config.get_registered_kryo_types())
    assert kryo == ({}, []) and config.get_registered_pojo_types() == []


@pytest.mark.parametrize("name", ["enable_force_kryo", "enable_force_avro", "disable_generic_types"])
def test_what_only_java_has_says_why_not(name):
    with pytest.raises(NotImplementedError):
        getattr(ExecutionConfig(), name)()


@pytest.mark.parametrize("name", ["add_jars", "add_classpaths"])
def test_jars_have_no_effect_and_a_warning_says_so(env, name):
    with pytest.warns(UserWarning, match="no effect in flinkbuf, .*no JVM.*: file:///x.jar, file:///y.jar"):
        getattr(env, name)("file:///x.jar", "file:///y.jar")


class Endless(SourceFunction):
    def run(self, context):
        pass

    def cancel(self):
        pass


class Ending(Endless):
    boundedness = Boundedness.BOUNDED


@pytest.mark.parametrize(
    ("mode", "sources", "is_batch"),
    [
        ("STREAMING", [[1]], False),
        ("AUTOMATIC", [[1]], True),
        ("AUTOMATIC", [[1], Ending()], True),
        ("AUTOMATIC", [[1], Endless()], False),
        ("AUTOMATIC", [iter([1])], False),  # nobody knows
        ("BATCH", [[1], iter([1]), Ending()], True),
        ("BATCH", [[1], Endless()], None),
    ],
)
def test_the_mode_and_the_ends_of_sources_say_whether_it_is_batch(env, mode, sources, is_batch):
    assert env.set_runtime_mode(RuntimeExecutionMode[mode]) is env
    streams = [
        env.from_collection(each) if isinstance(each, list) else env.add_source(each, type(each).__name__)
        for each in sources
    ]
    streams[0].union(*streams[1:]).map(str)
    if is_batch is None:
        with pytest.raises(ValueError, match="Detected an UNBOUNDED source .*'BATCH': 'Endless'.*STREAMING or AUTOM"):
            env._stream_graph(None, True)
        return
    graph = env._stream_graph(None, True)
    assert graph.settings.is_batch is is_batch
    assert graph.settings.job_name == ("Flink Batch Job" if is_batch else "Flink Streaming Job")


def test_sources_of_connectors_say_whether_they_end():
    assert is_bounded(NumberSequenceSource(1, 3)) is True
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/tmp")
    assert is_bounded(files.build()) is True
    assert is_bounded(files.monitor_continuously(Duration.of_millis(10)).build()) is False
    assert (is_bounded(range(3)), is_bounded(lambda: [1])) == (True, None)


def test_a_mode_is_one_of_three(env):
    with pytest.raises(TypeError, match="a RuntimeExecutionMode is needed, got 'BATCH'"):
        env.set_runtime_mode("BATCH")


def test_a_batch_job_takes_no_checkpoints_and_says_so(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).enable_checkpointing(100)
    env.from_collection([1]).map(str)
    with pytest.warns(UserWarning, match="checkpoints are switched off: a batch job"):
        start = start_of(env, None, env._job_files(), "embedded", can_be_taken_over=False)
    assert start.stored.settings.is_batch and not start.stored.settings.checkpointing_enabled
    assert start.stored.checkpointing.interval_ms == 0
    assert start.stored.restart_strategy is None, "as without checkpoints: the first failure fails it"


def test_a_batch_job_begins_with_no_savepoint(env, tmp_path):
    env.configure(Configuration.from_dict({"execution.state-recovery.path": str(tmp_path)}))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1]).map(str)
    with pytest.raises(ValueError, match="a batch job cannot begin with the state of"):
        start_of(env, None, env._job_files(), "embedded", can_be_taken_over=False)


def test_a_python_file_can_be_imported_afterwards(env, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "only_in_this_test.py").write_text("ANSWER = 42\n")
    env.add_python_file(str(tmp_path / "only_in_this_test.py"))
    import only_in_this_test

    assert only_in_this_test.ANSWER == 42
    with pytest.raises(FileNotFoundError):
        env.add_python_file(str(tmp_path / "nothing.py"))


@pytest.mark.parametrize("run", ["execute", "collect"])
def test_settings_without_effect_are_named_in_one_warning_at_the_line_that_runs_the_program(env, run):
    env.configure(Configuration.from_dict({"taskmanager.memory.process.size": "1 gb", "parallelism.default": "1"}))
    env.set_python_requirements("requirements.txt")
    numbers = env.from_collection([1]).map(int)
    with pytest.warns(UserWarning, match="no effect in flinkbuf: python.requirements .*taskmanager.memory") as found:
        env.execute() if run == "execute" else numbers.execute_and_collect(limit=1)
    assert len(found) == 1 and found[0].filename == __file__


def test_an_unknown_target_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'execution.target': it is one of embedded, local, spark, got 'yarn-session'"):
        configured(**{"execution.target": "yarn-session"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("heartbeat.timeout", "1 s"),
        ("taskmanager.memory.segment-size", "5000"),
        ("restart-strategy.failure-rate.failure-rate-interval", "0 s"),
    ],
)
def test_options_that_contradict_each_other_are_found_where_they_are_set(env, key, text):
    with pytest.raises(ValueError):
        env.configure(Configuration.from_dict({"restart-strategy.type": "failure-rate", key: text}))
    assert env.get_parallelism() == 1  # and nothing of it is kept
    env.from_collection([1]).map(int)
    env.execute()


def test_defaults_of_the_process_hold_where_the_program_says_nothing(monkeypatch):
    monkeypatch.setenv("FLINKBUF_PROPERTIES", "execution.target: embedded; parallelism.default: 3; pipeline.name: run")
    env = configured(**{"parallelism.default": "2"})
    assert env.get_parallelism() == 2
    env.from_collection([1]).map(int)
    assert env.execute_async(None).details()["name"] == "run"


def test_slots_and_backends_hold_what_was_said():
    size = MemorySize.of_mebi_bytes(5000)
    assert (str(size), size.get_gibi_bytes(), size.get_tebi_bytes()) == ("5000 mb", 4, 0)
    assert size < MemorySize.of_mebi_bytes(5001) and size <= size and size == MemorySize.of_mebi_bytes(5000)
    with pytest.raises(ValueError, match=">= 0"):
        MemorySize(-1)
    builder = SlotSharingGroup.builder("g").set_managed_memory_mb(3).set_external_resource("gpu", 1)
    assert builder.build().get_external_resources() == {"gpu": 1.0}
    with pytest.raises(ValueError, match="are required"):
        builder.set_cpu_cores(1).build()
    backend = EmbeddedRocksDBStateBackend()
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(2)
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 2 and backend.get_options() is None
    with pytest.raises(NotImplementedError, match="no JVM"):
        backend.set_options("com.example.Options")
    storage = FileSystemCheckpointStorage("/tmp/c", file_state_size_threshold=100)
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (100, 4096)
    assert JobManagerCheckpointStorage().get_max_state_size() == 5 * 1024 * 1024
    with pytest.raises(ValueError, match="maxStateSize"):
        JobManagerCheckpointStorage(max_state_size=0)


def test_retry_predicates():
    assert empty_result_predicate([]) and empty_result_predicate(None) and not empty_result_predicate([1])
    assert has_exception_predicate(ValueError()) and not has_exception_predicate(None)
    assert exception_type_predicate(KeyError(), LookupError) and not exception_type_predicate(KeyError(), OSError)


# --- programs that run


def results(stream):
    with stream.execute_and_collect() as records:
        return list(records)


def test_a_program_runs_and_is_forgotten(env, capsys):
    env.from_collection([1, 2, 3]).map(lambda value: value * 2).filter(lambda value: value > 2).print()
    result = env.execute("doubled")
    assert capsys.readouterr().out == "4\n6\n" and result.get_net_runtime() >= 0
    with pytest.raises(ValueError, match="No operators"):
        env.execute()


def test_the_plan_and_the_drawing_run_nothing(env, capsys):
    env.from_collection([1]).map(lambda value: 1 // 0).name("fails").print()
    assert [node["type"] for node in json.loads(env.get_execution_plan())["nodes"]][1] == "fails"
    env.explain()
    assert "fails" in capsys.readouterr().out


def test_collected_records_come_as_they_are_and_the_job_ends_when_nobody_reads_on(env):
    assert results(env.from_collection(["a b", "c"]).flat_map(str.split)) == ["a", "b", "c"]
    assert env.from_collection(range(1000)).map(str).execute_and_collect(limit=3) == ["0", "1", "2"]


def test_a_declared_type_converts_where_it_is_declared(env):
    stream = (
        env.from_collection([1, 2]).map(lambda value: value, Types.DOUBLE()).map(lambda value: type(value).__name__)
    )
    assert results(stream) == ["float", "float"]
    rows = env.from_collection([1]).map(lambda value: (value, "a"), Types.ROW([Types.INT(), Types.STRING()]))
    (row,) = results(rows)
    assert row.f0 == 1 and str(row) == "Row(f0=1, f1='a')"


def test_the_user_s_exception_comes_back_with_its_place(env):
    stream = env.from_collection([1, 0]).map(lambda value: 1 // value).name("divided")
    with pytest.raises(ZeroDivisionError) as caught:
        results(stream)
    assert (caught.value.operator_name, caught.value.subtask_index, caught.value.record) == ("divided", 0, 0)


def test_what_a_declared_type_refuses_is_an_error_at_its_record(env):
    with pytest.raises(TypeError, match="INT") as caught:
        results(env.from_collection([1, 2]).map(str, Types.INT()).name("texts"))
    assert (caught.value.operator_name, caught.value.record) == ("texts", 1)


def test_functions_are_opened_and_closed_once_in_each_subtask(env):
    class Traced(MapFunction):
        def open(self, runtime_context):
            self.task = runtime_context.get_task_name()

        def map(self, value):
            return self.task, value

    class Ends(FlatMapFunction):
        def flat_map(self, value):
            yield value

        def close(self):
            raise ValueError("the end")

    (found,) = results(env.from_collection([1]).map(Traced()))
    assert found[1] == 1 and "Map" in found[0]
    with pytest.raises(ValueError, match="the end"):
        results(env.from_collection([1]).flat_map(Ends()))


class Length(KeySelector):
    def open(self, runtime_context):
        self.divisor = 1

    def get_key(self, value):
        return len(value) // self.divisor


class Count(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


def test_a_map_function_on_a_keyed_stream_has_state_for_each_key(env):
    stream = env.from_collection(["a", "bb", "c", "dd"]).key_by(Length()).map(Count())
    assert results(stream) == [("a", 1), ("bb", 1), ("c", 2), ("dd", 2)]


class Both(CoMapFunction):
    def map1(self, value):
        return value if value > 1 else None

    def map2(self, value):
        return value.upper()


class Spread(CoFlatMapFunction):
    def flat_map1(self, value):
        yield from range(value)

    def flat_map2(self, value):
        return None


def test_connected_streams_run(env):
    numbers, texts = env.from_collection([1, 2]), env.from_collection(["a"])
    assert sorted(results(numbers.connect(texts).map(Both())), key=str) == [2, "A"]
    assert sorted(results(numbers.connect(texts).flat_map(Spread()))) == [0, 0, 1]


def test_partitioning_reaches_the_subtask_it_names(env):
    class Where(MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return value, self.index

    stream = env.from_collection(range(6)).partition_custom(lambda key, count: key % count, lambda value: value)
    assert sorted(results(stream.map(Where()).set_parallelism(3))) == [(value, value % 3) for value in range(6)]


SUNK = []  # a sink's copy in each subtask finds it by its module


class Numbers(SourceFunction):
    def run(self, ctx):
        for value in range(3):
            ctx.collect(value)


class Sunk(SinkFunction):
    def invoke(self, value):
        SUNK.append(value)


def test_sources_and_sinks_of_a_program_s_own(env):
    SUNK.clear()
    seen = []
    env.add_source(Numbers(), "numbers", Types.INT()).add_sink(seen.append)
    env.add_source(lambda: iter("ab")).add_sink(Sunk()).name("own")
    env.create_input([7]).add_sink(seen.append)
    env.execute()
    assert sorted(seen) == [0, 1, 2, 7] and SUNK == ["a", "b"]


def test_a_parallel_source_function_takes_the_default_parallelism(env):
    env.set_parallelism(3)
    assert env.add_source(ParallelSourceFunction([1]))._transformation.parallelism == 3
    assert env.add_source(SourceFunction([1]))._transformation.parallelism == 1


def test_from_source_needs_a_watermark_strategy(env):
    with pytest.raises(TypeError, match="WatermarkStrategy is needed"):
        env.from_source(object(), None, "source")
    assert WatermarkStrategy.no_watermarks() is not None


def test_a_job_that_runs_beside_the_program_can_be_cancelled(env):
    def forever():
        while True:
            yield 1

    env.add_source(forever).map(int)
    client = env.execute_async("endless")
    assert client.get_job_status().result() in (JobStatus.RUNNING, JobStatus.CREATED)
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()


def test_parameters_of_the_job_reach_its_functions(env):
    class Parameter(MapFunction):
        def open(self, runtime_context):
            self.found = runtime_context.get_job_parameter("airport", "none")

        def map(self, value):
            return self.found

    env.get_config().set_global_job_parameters({"airport": "JFK"})
    assert results(env.from_collection([1]).map(Parameter())) == ["JFK"]


def test_a_configuration_asks_for_a_batch_job_too(env):
    env.configure(Configuration.from_dict({"execution.runtime-mode": "batch", "slotmanager.number-of-slots.max": "2"}))
    env.from_collection([1]).map(int)
    settings = env._stream_graph(None, True).settings
    assert (settings.is_batch, settings.is_blocking, settings.slot_limit) == (True, True, 2)
    env.configure(Configuration.from_dict({"execution.batch-shuffle-mode": "all_exchanges_pipelined"}))
    assert not env._stream_graph(None, True).settings.is_blocking
    with pytest.raises(ValueError, match="batch-shuffle-mode.*ALL_EXCHANGES_BLOCKING, ALL_EXCHANGES_PIPELINED"):
        configured(**{"execution.batch-shuffle-mode": "ALL_EXCHANGES_HYBRID_FULL"})
    with pytest.raises(ValueError, match="it is one of STREAMING, BATCH, AUTOMATIC"):
        configured(**{"execution.runtime-mode": "NIGHTLY"})


def test_latency_and_cancellation_settings_reach_the_tasks():
    settings = configured(
        **{
            "metrics.latency.interval": "5 ms",
            "metrics.latency.granularity": "subtask",
            "metrics.latency.history-size": "7",
            "task.cancellation.interval": "3 s",
        }
    )._execution_settings()
    assert (settings.latency_tracking_interval_ms, settings.task_cancellation_interval_ms) == (5, 3_000)
    assert (settings.latency_granularity, settings.latency_history_size) == ("subtask", 7)
    for key, text in (("granularity", "all"), ("history-size", "0")):
        with pytest.raises(ValueError, match=f"Could not parse value '{text}' for key 'metrics.latency.{key}'"):
            configured(**{f"metrics.latency.{key}": text})


def test_no_interval_means_that_nobody_is_interrupted(env):
    env.get_config().set_task_cancellation_interval(0)
    before = time.process_time()
    assert list(env.add_source(waits_between([1, 2])).map(int).execute_and_collect()) == [1, 2]
    assert time.process_time() - before < 0.2  # its own thread does not ask again and again


def waits_between(values, seconds=0.3):
    def generate():
        for value in values:
            yield value
            time.sleep(seconds)

    return generate


@pytest.mark.parametrize("fast_count", [0, 20_000])
def test_watermarks_go_on_while_an_iterable_waits_between_its_records(env, fast_count):
    def generate():
        yield from range(-fast_count, 0)
        yield from waits_between([1, 5, 10, 15, 20, 3], 0.25)()

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ItsValue())
    stream = env.add_source(generate).assign_timestamps_and_watermarks(strategy).process(WithWatermark())
    assert list(stream.execute_and_collect())[-1] == (3, 19)


class ItsValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class WithWatermark(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


def test_a_stop_iteration_of_a_function_is_no_end_of_the_records(env):
    def raises(value):
        return next(iter(()))

    with pytest.raises(RuntimeError, match="raised StopIteration") as found:
        list(env.from_collection([1]).map(raises).name("mine").execute_and_collect())
    assert isinstance(found.value.__cause__, StopIteration) and found.value.operator_name == "mine"
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        env.from_collection([1]).map(raises).execute_and_collect(limit=1)
    source = DataGeneratorSource(raises, 3)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(env.from_source(source, WatermarkStrategy.no_watermarks(), "made").execute_and_collect())


def test_what_a_source_raises_says_which_source(env):
    def generate():
        yield 1
        raise ZeroDivisionError("no more")

    class Fails(SourceFunction):
        def run(self, ctx):
            raise ZeroDivisionError("at once")

        def cancel(self):
            pass

    for source in (generate, Fails()):
        with pytest.raises(ZeroDivisionError) as found:
            list(env.add_source(source, "mine").map(int).execute_and_collect())
        assert (found.value.operator_name, found.value.subtask_index) == ("Source: mine", 0)


def test_known_settings_give_no_warning(env):
    env.set_buffer_timeout(5)
    env.set_max_parallelism(64)
    env.from_collection([1]).map(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.execute()


class RefusesWatermarks(Sink):
    def create_writer(self, context):
        return WatermarkRefuser()


class WatermarkRefuser(SinkWriter):
    def write(self, element, context):
        pass

    def write_watermark(self, watermark):
        raise OSError("the disk")


def test_an_error_about_a_watermark_is_that_of_the_operator_which_was_told(env):
    env.set_parallelism(2)
    env.from_collection([1]).rebalance().map(lambda value: value).name("first").sink_to(RefusesWatermarks()).name(
        "last"
    )
    with pytest.raises(OSError, match="the disk") as caught:
        env.execute()
    assert caught.value.operator_name == "Sink: last"


FORKS = """
import os, sys, time
from flinkbuf.common import Time
from flinkbuf.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
class Same(AsyncFunction):
    async def async_invoke(self, value):
        return [value]
def endless():
    while True:
        yield 1
def job(source, collect):
    env = StreamExecutionEnvironment.get_execution_environment()
    AsyncDataStream.unordered_wait(env.add_source(source), Same(), Time.seconds(5)).add_sink(collect)
    return env
seen = []
client = job(endless, seen.append).execute_async("endless")
while not seen:
    time.sleep(0.01)
if os.fork() == 0:
    out, begin = [], time.monotonic()
    job([1, 2], out.append).execute("in the child")
    sys.exit(0 if sorted(out) == [1, 2] else 3)  # and waits for no job of its parent
begin = time.monotonic()
_, status = os.wait()
took = time.monotonic() - begin
client.cancel().result()
print(status, took < 20)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_runs_jobs_of_its_own_while_its_parent_runs_one():
    ended = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=30)
    assert (ended.stdout, ended.returncode) == ("0 True\n", 0), ended.stderr


def test_how_often_a_cancelled_task_is_interrupted_is_a_setting(env):
    env.get_config().set_task_cancellation_interval(70)
    assert env._execution_settings().task_cancellation_interval_ms == 70


# --- jobs


class FailsAtFirst(MapFunction):
    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if self.attempt < 2:
            raise ValueError(f"attempt {self.attempt}")
        return value


def test_a_restart_strategy_acts(env):
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 0))
    env.from_collection([7]).map(FailsAtFirst()).add_sink(SUNK.append)
    SUNK.clear()
    client = env.execute_async("restarted")
    client.get_job_execution_result().result()
    assert SUNK == [7] and client.details()["state"] == "FINISHED"


def test_after_the_last_attempt_the_job_fails_with_the_last_exception(env):
    env.configure(
        Configuration.from_dict({"restart-strategy": "fixed-delay", "restart-strategy.fixed-delay.delay": "0"})
    )
    env.from_collection([7]).map(FailsAtFirst()).print()
    with pytest.raises(ValueError, match="attempt 1"):
        env.execute()


class Counting(MapFunction):
    def open(self, runtime_context):
        self.rows = runtime_context.get_int_counter("rows")

    def map(self, value):
        self.rows.add(1)
        return value


def test_the_result_has_what_the_functions_have_counted(env):
    env.from_collection(range(7)).rebalance().map(Counting()).set_parallelism(3).print()
    result = env.execute("counted")
    assert result.get_accumulator_result("rows") == 7 and "- rows: 7" in str(result)


def test_details_are_json_in_the_shapes_of_flinks_rest_api(env):
    env.from_collection(range(7)).map(lambda value: value).name("same").print()
    client = env.execute_async("pictured")
    client.get_job_execution_result().result()
    details = json.loads(json.dumps(client.details()))
    assert (details["jid"], details["name"], details["state"]) == (str(client.get_job_id()), "pictured", "FINISHED")
    assert [vertex["parallelism"] for vertex in details["vertices"]] == [1]
    assert "same" in details["vertices"][0]["name"]


def test_several_jobs_run_side_by_side(env):
    both = threading.Barrier(2, timeout=30)
    clients = []
    for name in ("first", "second"):
        env.from_collection([1]).add_sink(lambda value: both.wait())
        clients.append(env.execute_async(name))
    for client in clients:
        assert client.get_job_execution_result().result().get_net_runtime() >= 0
    assert len({client.get_job_id() for client in clients}) == 2


def test_a_job_that_has_ended_is_kept_in_the_archive(env, tmp_path):
    env.configure(Configuration.from_dict({"jobmanager.archive.fs.dir": str(tmp_path / "archive")}))
    env.from_collection([1]).map(int)
    job_id = str(env.execute("kept").get_job_id())
    assert archived_jobs(str(tmp_path / "archive")) == [job_id]
    assert read_archived_job(str(tmp_path / "archive"), job_id)["name"] == "kept"


def test_a_parallelism_over_the_maximum_is_refused_with_both():
    env = configured(**{"pipeline.max-parallelism": "4"})
    env.from_collection([1]).rebalance().map(int).set_parallelism(5).print()
    with pytest.raises(ValueError, match="max parallelism must be from its parallelism 5"):
        env.execute()


def test_a_job_is_shown_on_the_terminal_if_that_is_wanted(env, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def shown(**pairs):
        env.configure(Configuration.from_dict({"rest.enabled": "false", **pairs}))
        monkeypatch.setattr("sys.stderr", Terminal())
        env.from_collection(range(5)).map(int).name("shown")
        env.execute("on a terminal")
        return sys.stderr.getvalue()

    text = shown()
    assert "on a terminal · finished in" in text and "shown" in text
    assert shown(**{"pipeline.progress": "false"}) == ""
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    assert shown(**{"pipeline.progress": "auto"}) == ""
    assert "finished in" in shown(**{"pipeline.progress": "true"})


# --- files


class Reads(MapFunction):
    """Reads files by their names in the distributed cache."""

    def open(self, runtime_context):
        self.cache = runtime_context.get_distributed_cache()

    def map(self, name):
        folder, _, file = name.partition("/")
        return (self.cache.get_file(folder) / file).read_text() if file else self.cache.get_file(folder).read_text()


def test_functions_find_files_and_archives_by_name_and_nothing_is_left(env, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "airports.csv").write_text("JFK")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as zipped:
        zipped.writestr("planes.csv", "N14228")
    monkeypatch.chdir(tmp_path)
    env.register_cached_file("airports.csv", "airports")
    env.add_python_archive("data.zip", "data")
    env.configure(Configuration.from_dict({"pipeline.cached-files": f"name:same,path:{tmp_path}/airports.csv"}))
    monkeypatch.chdir("/")
    found = results(env.from_collection(["airports", "data/planes.csv", "same"]).map(Reads()))
    assert found == ["JFK", "N14228", "JFK"]
    assert list((tmp_path / "temporary").iterdir()) == []
    with pytest.raises(ValueError, match="File with name 'nothing' is not available"):
        results(env.from_collection(["nothing"]).map(Reads()))


def test_files_that_are_not_there_are_refused_where_they_are_named(env):
    for call in (
        lambda: env.register_cached_file("/nothing", "nothing"),
        lambda: env.add_python_archive("/nothing.zip"),
        lambda: env.add_python_file("/nothing.py"),
    ):
        with pytest.raises(FileNotFoundError, match="/nothing"):
            call()


def test_python_files_of_the_options_can_be_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "named_by_an_option.py").write_text("ANSWER = 42\n")
    env = configured(**{"python.files": str(tmp_path / "named_by_an_option.py")})

    def answer(value):
        import named_by_an_option

        return named_by_an_option.ANSWER

    assert results(env.from_collection([1]).map(answer)) == [42]
