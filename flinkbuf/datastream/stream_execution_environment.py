"""Where a program begins and is executed. Flink: StreamExecutionEnvironment."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from flinkbuf.common import checkpoint_options, job_options, options, web_options
from flinkbuf.common.configuration import Configuration, default_configuration, hide_sensitive_values
from flinkbuf.common.execution_config import ExecutionConfig, default_parallelism
from flinkbuf.common.job_client import JobClient, JobEnd
from flinkbuf.common.job_execution_result import JobExecutionResult
from flinkbuf.common.restart_strategy import RestartStrategyConfiguration
from flinkbuf.datastream.arguments import MAX_PARALLELISM_LIMIT, declared, of_spark
from flinkbuf.datastream.checkpoint_config import CheckpointConfig
from flinkbuf.datastream.checkpointing_mode import CheckpointingMode
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.datastream.execution_mode import RuntimeExecutionMode, is_bounded, runs_in_batch
from flinkbuf.datastream.program.forgotten import next_program, note_sink, warn, was_used
from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup
from flinkbuf.runtime.driver.ended_job import EndedJob
from flinkbuf.runtime.driver.error_report import show_errors
from flinkbuf.runtime.driver.job_files import CachedFile, JobFiles, PythonArchive, existing, import_place
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.runtime.manager.task_log import TEXT, log_to_stderr
from flinkbuf.runtime.process.termination import StoppableJob, the_termination
from flinkbuf.streaming.chain.functions import ParallelSourceFunction
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.collect import DEFAULT_CAPACITY, Collector
from flinkbuf.streaming.sinks.sink_factories import PrintSinkFactory
from flinkbuf.streaming.sources.source_factories import (
    COLLECTION_SOURCE_NAME,
    CollectionSourceFactory,
    source_factory_of,
)
from flinkbuf.streaming.sources.table_source import TableSource, is_table, plain_table
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from flinkbuf.datastream.columns import ColumnStream
    from flinkbuf.datastream.program.job_start import ProgramJob
    from flinkbuf.runtime.driver.rescalable_job import RescalableJob
    from flinkbuf.runtime.driver.running_job import RunningJob
    from flinkbuf.runtime.graph.job_graph import JobGraph
    from flinkbuf.runtime.graph.stream_graph import StreamGraph
    from flinkbuf.runtime.process.termination import WatchedJob
    from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
    from flinkbuf.streaming.sources.source import Source
    from flinkbuf.types.row import Row
    from flinkbuf.web.serving import Served, WebConfig

DEFAULT_JOB_NAME = options.DEFAULT_JOB_NAME
SHOWN_HEARTBEAT_MS = 1_000
MS_A_SUBTASK = 1  # the job master takes an eighth of it to hear of one: of very many it hears less often
_NO_JVM = "there is no JVM that could load them: connectors of flinkbuf are Python classes"


T = TypeVar("T")  # of the records of a stream


# What older versions of Flink, and PySpark, have.
_ELSEWHERE = {
    "read_text_file": "from_source(FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build(), "
    "WatermarkStrategy.no_watermarks(), name)",
    "from_elements": "from_collection([...])",
    "from_parallel_collection": "from_source(NumberSequenceSource(first, last), ...)",
    "generate_sequence": "from_source(NumberSequenceSource(first, last), ...)",
    "parallelize": "from_collection([...])",
    "set_stream_time_characteristic": "nothing: timestamps and watermarks are assign_timestamps_and_watermarks' alone",
    "set_state_backend": "configure(...) with state.backend.type",
}


class StreamExecutionEnvironment:
    """A program: its sources, all that is made of them, and how it shall run. Flink's ``StreamExecutionEnvironment``.

    Not to be used by several threads at a time.

    Examples
    --------
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection(["to", "be", "or", "not", "to", "be"])
    >>> counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
    >>> env.set_parallelism(2).get_parallelism()
    2
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = default_configuration()
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._operators: list[OperatorTransformation] = []
        self._side_outputs: dict[tuple[int, str], TypeInformation | None] = {}
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._python_files: list[str] = []
        self._archives: list[PythonArchive] = []
        self._cached_files: dict[str, CachedFile] = {}
        self._local_parallelism: int | None = None
        self._program = next_program()
        self._check_configuration()
        show_errors()

    def __repr__(self) -> str:
        operators = len(self._operators)
        return f"<StreamExecutionEnvironment of {operators} operators, parallelism {self.get_parallelism()}>"

    if not TYPE_CHECKING:  # which would take any name for one that is there

        def __getattr__(self, name: str) -> object:
            """Say what it is that other versions have under this name."""
            near = [] if name.startswith("_") else get_close_matches(name, dir(type(self)), 1, 0.8)
            advice = f". Did you mean: {near[0]!r}?" if near else ""
            if name in _ELSEWHERE:
                advice = f": here it is {_ELSEWHERE[name]}"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Make an environment.

        Parameters
        ----------
        configuration : Configuration, optional
            Settings by Flink's keys; they are copied.

        Examples
        --------
        >>> from flinkbuf.common import Configuration
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> settings = Configuration().set_string("execution.target", "embedded").set_string("parallelism.default", "3")
        >>> env = StreamExecutionEnvironment.get_execution_environment(settings)
        >>> env.get_parallelism()
        3
        >>> sorted(env.from_collection([1, 2]).rebalance().map(str).execute_and_collect())
        ['1', '2']
        """
        return StreamExecutionEnvironment(configuration)

    # --- how it runs

    def get_config(self) -> ExecutionConfig:
        """Return the settings of execution; what is set there holds here.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.get_config().set_auto_watermark_interval(50).set_global_job_parameters({"unit": "km"})
        >>> env.get_config().get_auto_watermark_interval(), env.get_config().get_global_job_parameters()
        (50, {'unit': 'km'})
        """
        return ExecutionConfig(self._configuration)

    def configure(self, configuration: Configuration) -> None:
        """Take over settings by Flink's keys.

        Examples
        --------
        >>> from flinkbuf.common import Configuration
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.configure(Configuration().set_string("execution.buffer-timeout.interval", "5 ms"))
        >>> env.get_buffer_timeout()
        5
        >>> env.configure(Configuration().set_string("parallelism.default", "many"))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: Could not parse value 'many' for key 'parallelism.default': ...
        """
        before = Configuration(self._configuration)
        self._configuration.add_all(configuration)
        try:
            self._check_configuration()
        except (ValueError, NotImplementedError):
            self._configuration = before
            raise

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set how many subtasks the operators that are made from now on have by default.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        >>> _ = env.from_collection([1, 2]).rebalance().map(str).print().set_parallelism(1)
        >>> env.get_parallelism()
        2
        >>> env.explain()
        Flink Streaming Job: 3 tasks, 4 subtasks, 2 slots
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map  x 2
            from [1] by REBALANCE
        <BLANKLINE>
        [3] Sink: Print to Std. Out  x 1
            from [2] by REBALANCE
        """
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return how many subtasks operators have by default; as many as there are cores, unless set."""
        if self._local_parallelism is not None and not self._configuration.contains_key(options.PARALLELISM.key):
            return self._local_parallelism
        return self.get_config().get_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups: the most subtasks that state can ever be spread over.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(4).set_max_parallelism(4)
        >>> env.get_max_parallelism()
        4
        >>> words = env.from_collection(["to", "be"]).key_by(len)
        >>> words.map(str.upper).set_parallelism(8).execute_and_collect()
        Traceback (most recent call last):
            ...
        ValueError: operator 'Map': max parallelism must be from its parallelism 8 to 32768, got 4
        """
        if not 0 < max_parallelism <= MAX_PARALLELISM_LIMIT:
            raise ValueError(
                f"maxParallelism is out of bounds 0 < maxParallelism <= {MAX_PARALLELISM_LIMIT}. "
                f"Found: {max_parallelism}"
            )
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1: chosen from the parallelism."""
        return self.get_config().get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """Return how many subtasks operators have where nothing else says it."""
        return default_parallelism() if self._local_parallelism is None else self._local_parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set how many subtasks operators have where nothing else says it.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.set_default_local_parallelism(3)
        >>> env.get_default_local_parallelism(), env.get_parallelism()
        (3, 3)
        >>> env.set_parallelism(2).get_parallelism()
        2
        """
        if parallelism < 1:
            raise ValueError(f"Parallelism must be at least one, got {parallelism}")
        self._local_parallelism = parallelism

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Say what the slots of a group need.

        Examples
        --------
        >>> from flinkbuf.datastream import SlotSharingGroup, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> group = SlotSharingGroup.builder("models").set_cpu_cores(2).set_task_heap_memory_mb(512).build()
        >>> _ = env.register_slot_sharing_group(group)
        >>> _ = env.from_collection([-1, 2]).map(abs).slot_sharing_group("models").print()
        >>> env.explain()
        Flink Streaming Job: 2 tasks, 2 subtasks, 2 slots
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map -> Sink: Print to Std. Out  x 1
            from [1] by FORWARD
        """
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Choose whether the program runs as streams, or in batch: as data of which all is there.

        In batch, keyed operators see one key after the other and give one result for each; what one task writes is
        kept until those who read it have finished, and they begin when it is complete; there are no checkpoints, and
        no watermark but the last.

        Parameters
        ----------
        execution_mode : RuntimeExecutionMode
            ``STREAMING``, the default; ``BATCH``, which needs sources that come to an end; ``AUTOMATIC``, batch if
            all sources are known to.

        References
        ----------
        Flink ``execution.runtime-mode``.

        Examples
        --------
        >>> from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        >>> words = env.from_collection(["to", "be", "or", "not", "to", "be"])
        >>> counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
        >>> sorted(counts.execute_and_collect())  # each word once
        [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise TypeError(f"a RuntimeExecutionMode is needed, got {execution_mode!r}")
        self._configuration.set_string(options.RUNTIME_MODE.key, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Send what was emitted after so many milliseconds; 0: each record at once, -1: full buffers only.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.set_buffer_timeout(5).get_buffer_timeout()  # a record waits 5 ms at most for others
        5
        >>> env.set_buffer_timeout(-1).get_buffer_timeout()
        -1
        """
        if timeout_millis < -1:
            raise ValueError(f"Timeout of buffer must be non-negative or -1, got {timeout_millis}")
        self._configuration.set_boolean(options.BUFFER_TIMEOUT_ENABLED.key, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set_string(options.BUFFER_TIMEOUT.key, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """Return after how many milliseconds what was emitted is sent; -1: full buffers only."""
        is_enabled = options.read(self._configuration, options.BUFFER_TIMEOUT_ENABLED)
        return options.read(self._configuration, options.BUFFER_TIMEOUT) if is_enabled else -1

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Give each operator a task of its own.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([-1, 2]).map(abs).print()
        >>> env.is_chaining_enabled(), env.disable_operator_chaining().is_chaining_enabled()
        (True, False)
        >>> env.explain()
        Flink Streaming Job: 3 tasks, 3 subtasks, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map  x 1
            from [1] by FORWARD
        <BLANKLINE>
        [3] Sink: Print to Std. Out  x 1
            from [2] by FORWARD
        """
        self._configuration.set_boolean(options.OPERATOR_CHAINING.key, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Tell whether operators share tasks."""
        return options.read(self._configuration, options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Tell whether operators of different max parallelism share tasks.

        Examples
        --------
        >>> from flinkbuf.common import Configuration
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> key = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
        >>> env.configure(Configuration().set_boolean(key, False))
        >>> env.is_chaining_of_operators_with_different_max_parallelism_enabled()
        False
        >>> _ = env.from_collection([-1, 2]).map(abs).set_max_parallelism(8).print()
        >>> env.explain()
        Flink Streaming Job: 3 tasks, 3 subtasks, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map  x 1
            from [1] by FORWARD
        <BLANKLINE>
        [3] Sink: Print to Std. Out  x 1
            from [2] by FORWARD
        """
        return options.read(self._configuration, options.CHAIN_DIFFERENT_MAX_PARALLELISM)

    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> StreamExecutionEnvironment:
        """Say what happens after a failure; what the options ``restart-strategy`` say, too. PyFlink 1's method.

        Parameters
        ----------
        restart_strategy : RestartStrategyConfiguration
            One of ``flinkbuf.common.RestartStrategies``.

        Examples
        --------
        >>> from flinkbuf.common import RestartStrategies
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env = env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))
        """
        job_options.set_restart(self._configuration, restart_strategy)
        return self

    # --- checkpoints

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the settings of checkpoints; what is set there holds here.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.enable_checkpointing(500).get_checkpoint_config().set_max_concurrent_checkpoints(2)
        >>> config = env.get_checkpoint_config().enable_unaligned_checkpoints().set_force_unaligned_checkpoints()
        >>> config.get_checkpoint_interval(), config.get_max_concurrent_checkpoints()
        (500, 2)
        >>> env.is_unaligned_checkpoints_enabled(), env.is_force_unaligned_checkpoints()
        (True, True)
        """
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Make a checkpoint every so many milliseconds.

        Examples
        --------
        >>> from flinkbuf.datastream import CheckpointingMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.get_checkpoint_interval()
        -1
        >>> _ = env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
        >>> env.get_checkpoint_interval(), env.get_checkpointing_mode().name
        (500, 'AT_LEAST_ONCE')
        >>> env.get_checkpointing_consistency_mode() is env.get_checkpointing_mode()  # Flink has both names
        True
        """
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between two checkpoints in milliseconds; -1: there are none."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return what checkpoints promise."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return what checkpoints promise."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Tell whether barriers may overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Tell whether barriers overtake even where Flink would not let them."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Say whether changes of state are logged as they happen.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.is_changelog_state_backend_enabled()
        >>> env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled()
        True
        """
        self._configuration.set_boolean(options.CHANGELOG.key, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return what was said; None: nothing."""
        return options.read(self._configuration, options.CHANGELOG)

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Say where savepoints go that are told no directory.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.set_default_savepoint_directory("s3://jobs/savepoints").get_default_savepoint_directory()
        's3://jobs/savepoints'
        """
        self._configuration.set_string(options.SAVEPOINT_DIRECTORY.key, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return where savepoints go that are told no directory."""
        return options.read(self._configuration, options.SAVEPOINT_DIRECTORY)

    # --- what its functions need

    def add_python_file(self, file_path: str) -> None:
        """Let functions import a module, or what lies in a directory or a zip file, wherever they run.

        Raises
        ------
        FileNotFoundError
            If it does not exist.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> folder = tempfile.TemporaryDirectory()
        >>> module = pathlib.Path(folder.name, "fahrenheit_of.py")
        >>> _ = module.write_text("def celsius(degrees): return 1.8 * degrees + 32")
        >>> env.add_python_file(str(module))
        >>> import fahrenheit_of
        >>> env.from_collection([0, 100]).map(fahrenheit_of.celsius).execute_and_collect(limit=2)
        [32.0, 212.0]
        >>> folder.cleanup()
        """
        path = str(existing(file_path, "Python file"))
        if path not in self._python_files:
            self._python_files.append(path)
        _make_importable(path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Do nothing but be named in a warning: functions run in this interpreter, with its packages.

        Examples
        --------
        >>> import warnings
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.set_python_requirements("requirements.txt")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     env.from_collection([1, 2]).execute_and_collect(limit=2)
        [1, 2]
        >>> "python.requirements (packages are those of this interpreter" in str(caught[0].message)
        True
        """
        self._configuration.set_string("python.requirements", requirements_file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Let functions find an archive unpacked, in a directory below their working directory.

        On local processes and on Spark functions open ``target_dir/...``. On every target, an embedded job's included,
        which leaves the program's working directory alone, they find it by
        ``runtime_context.get_distributed_cache().get_file(target_dir)``.

        Parameters
        ----------
        archive_path : str
            A zip or tar file.
        target_dir : str, optional
            The name of the directory; that of the file by default.

        Raises
        ------
        FileNotFoundError, ValueError
            If it does not exist, or the target is no name.

        Examples
        --------
        >>> import pathlib, tempfile, zipfile
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> folder = tempfile.TemporaryDirectory()
        >>> with zipfile.ZipFile(pathlib.Path(folder.name, "data.zip"), "w") as archive:
        ...     archive.writestr("airports.txt", "JFK LGA")
        >>> env.add_python_archive(archive.filename, "data")
        >>> class Known(MapFunction):
        ...     def open(self, runtime_context):
        ...         data = runtime_context.get_distributed_cache().get_file("data")
        ...         self.airports = (data / "airports.txt").read_text().split()
        ...     def map(self, value):
        ...         return value in self.airports
        >>> env.from_collection(["JFK", "SFO"]).map(Known()).execute_and_collect(limit=2)
        [True, False]
        >>> folder.cleanup()
        """
        self._archives.append(PythonArchive.of(archive_path, target_dir))

    def set_python_executable(self, python_exec: str) -> None:
        """Do nothing but be named in a warning: functions run in this interpreter.

        Examples
        --------
        >>> import warnings
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.set_python_executable("/usr/bin/python3")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     env.from_collection([1, 2]).execute_and_collect(limit=2)
        [1, 2]
        >>> "python.executable (tasks run in this interpreter" in str(caught[0].message)
        True
        """
        self._configuration.set_string("python.executable", python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Warn that jars have no effect: connectors are Python classes here, which need none.

        What is only in a jar is refused where a program uses it.

        Examples
        --------
        >>> import warnings
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     env.add_jars("file:///flink-sql-connector-kafka.jar")
        >>> str(caught[0].message).partition(",")[0]
        'jars have no effect in flinkbuf'
        """
        self._warn_of_java("jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Warn that class paths have no effect, as `add_jars` does.

        Examples
        --------
        >>> import warnings
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     env.add_classpaths("file:///classes")
        >>> str(caught[0].message).partition(",")[0]
        'class paths have no effect in flinkbuf'
        """
        self._warn_of_java("class paths", classpaths)

    @staticmethod
    def _warn_of_java(what: str, given: tuple[str, ...]) -> None:
        warn(f"{what} have no effect in flinkbuf, since {_NO_JVM}: {', '.join(map(str, given))}")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Let functions find a file, or a directory, wherever they run.

        They do so by ``runtime_context.get_distributed_cache().get_file(name)``.

        Raises
        ------
        FileNotFoundError
            If it does not exist.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "airports.txt")
        >>> _ = path.write_text("JFK LGA")
        >>> env.register_cached_file(str(path), "airports")
        >>> class Known(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.airports = runtime_context.get_distributed_cache().get_file("airports").read_text().split()
        ...     def map(self, value):
        ...         return value in self.airports
        >>> env.from_collection(["JFK", "SFO"]).map(Known()).execute_and_collect(limit=2)
        [True, False]
        >>> folder.cleanup()
        """
        self._cached_files[name] = CachedFile(name, str(existing(file_path, "file")), executable)

    # --- sources

    @overload
    def from_collection(self, collection: Iterable[T]) -> DataStream[T]: ...

    @overload
    def from_collection(self, collection: Iterable[object], type_info: object = None) -> DataStream[Any]: ...

    def from_collection(self, collection: Iterable[T], type_info: object = None) -> DataStream[T]:
        """Make a stream of the elements of any iterable, as they are now; in one subtask.

        A table is a stream of its rows, in as many parts as there are subtasks; `DataStream.as_columns` behind it gives
        its columns, and no row is an object.

        Parameters
        ----------
        collection : iterable or table
            A table is a ``Table`` or ``RecordBatch`` of pyarrow, a ``DataFrame`` of polars or pandas, or another object
            with Arrow's PyCapsule interface.
        type_info : TypeInformation, optional
            What the elements are; of a table it is known.

        Raises
        ------
        TypeError
            If it is neither; if a column of a table has no type of records.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([("UA", 2), ("AA", 33)]).map(lambda flight: flight[1]).execute_and_collect(limit=2)
        [2, 33]
        >>> flights = env.from_collection([("UA", 2), ("AA", 33)], "carrier string, delay int")
        >>> flights.map(lambda flight: flight.delay).execute_and_collect(limit=2)
        [2, 33]
        >>> import pyarrow as pa
        >>> from flinkbuf.datastream.columns import sum_
        >>> table = pa.table({"carrier": ["UA", "AA", "UA"], "delay": [2, 33, 4]})
        >>> delays = env.from_collection(table).as_columns().key_by("carrier").aggregate(delay=sum_("delay"))
        >>> sorted(delays.execute_and_collect(limit=2))
        [Row(carrier='AA', delay=33), Row(carrier='UA', delay=6)]
        """
        if is_table(collection):
            if type_info is not None:
                raise TypeError(
                    "a table says itself what its columns are, so from_collection() takes no type_info with one: say "
                    "as_columns(type) behind it to have them cast"
                )
            source = TableSource(plain_table(collection))
            return self.from_source(source, WatermarkStrategy.no_watermarks(), COLLECTION_SOURCE_NAME)
        if not isinstance(collection, Iterable):
            raise TypeError(
                f"from_collection takes a list or another iterable, got {type(collection).__name__} {collection!r}"
            )
        type_info = declared(type_info)
        factory = CollectionSourceFactory(collection, type_info)
        return self._source(COLLECTION_SOURCE_NAME, type_info, factory, is_parallel=False, is_legacy_source=True)

    def add_source(
        self, source_func: object, source_name: str = "Custom Source", type_info: object = None
    ) -> DataStream[Any]:
        """Make a stream of what a function emits, or of any iterable; in one subtask unless it says it is parallel.

        Parameters
        ----------
        source_func : SourceFunction, iterable or callable
            An object with ``run(ctx)`` and ``cancel()``; an iterable; or a function without arguments that gives one.
        source_name : str
        type_info : TypeInformation, optional
            What the records are.

        Examples
        --------
        >>> from flinkbuf.datastream import SourceFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Countdown(SourceFunction):
        ...     def run(self, ctx):
        ...         for number in (3, 2, 1):
        ...             ctx.collect(number)
        ...     def cancel(self): ...
        >>> list(env.add_source(Countdown(), "countdown").execute_and_collect())
        [3, 2, 1]
        >>> list(env.add_source(lambda: (n * n for n in range(3)), "squares").execute_and_collect())
        [0, 1, 4]
        """
        factory = source_factory_of(source_func)
        is_parallel = isinstance(source_func, ParallelSourceFunction)
        return self._source(
            source_name,
            declared(type_info),
            factory,
            is_parallel=is_parallel,
            is_legacy_source=True,
            is_bounded=is_bounded(source_func),
        )

    def from_source(
        self, source: Source, watermark_strategy: WatermarkStrategy, source_name: str, type_info: object = None
    ) -> DataStream[Any]:
        """Make a stream of a `Source` of ``flinkbuf.datastream.connectors``, or of one's own.

        Parameters
        ----------
        source : Source
        watermark_strategy : WatermarkStrategy
            How its records come to event time.
        source_name : str
        type_info : TypeInformation, optional
            What the records are; by default what the source says.

        Examples
        --------
        >>> from flinkbuf.common import WatermarkStrategy
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
        >>> numbers = env.from_source(NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "numbers")
        >>> sorted(numbers.set_parallelism(2).execute_and_collect())
        [1, 2, 3, 4]
        """
        from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory

        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(
                f"a WatermarkStrategy is needed, got {type(watermark_strategy).__name__} {watermark_strategy!r}"
            )
        if type_info is None and hasattr(source, "get_produced_type"):
            type_info = source.get_produced_type()
        factory = SourceOperatorFactory(source, watermark_strategy)
        return self._source(source_name, declared(type_info), factory, is_parallel=True, is_bounded=is_bounded(source))

    def create_input(self, input_format: object, type_info: object = None) -> DataStream[Any]:
        """Make a stream of an input format: an iterable, or a function without arguments that gives one.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> lines = env.create_input(lambda: (f"line {number}" for number in (1, 2)), "string")
        >>> lines.execute_and_collect(limit=2)
        ['line 1', 'line 2']
        """
        if type_info is None and hasattr(input_format, "get_produced_type"):
            type_info = input_format.get_produced_type()
        return self.add_source(input_format, COLLECTION_SOURCE_NAME, type_info)

    def from_rdd(self, rdd: object, type_info: object = None) -> DataStream[Any]:
        """Make a stream of the records of a Spark RDD; the program runs on Spark then.

        Parameters
        ----------
        rdd : pyspark.RDD
            Partition i is read by subtask i. The stream has as many subtasks as the RDD has partitions, but no more
            than the environment's parallelism, or Spark's cores where that is not set; `set_parallelism` changes it.
            Where the two numbers differ, or other operators have more subtasks, a shuffle brings each partition, whole
            and in order, to the subtask that reads it.
        type_info : TypeInformation, optional
            What the records are; whatever they are, if left out.

        Notes
        -----
        Spark gives its records once: a job that reads them is restarted as a whole, in a new stage.

        Examples
        --------
        >>> env.from_rdd(sc.parallelize(range(10), 2), Types.LONG()).map(lambda n: n * n).print()  # doctest: +SKIP
        """
        return of_spark("frames.spark_source").from_rdd(self, rdd, type_info)

    def from_data_frame(self, data_frame: object) -> DataStream[Row]:
        """Make a stream of the rows of a Spark DataFrame, of the type that its schema says; see `from_rdd`.

        Parameters
        ----------
        data_frame : pyspark.sql.DataFrame
            Timestamps become naive datetimes in the zone of the process, as in ``collect()``.

        Examples
        --------
        >>> env.from_data_frame(spark.range(3)).map(lambda row: row.id).print()  # doctest: +SKIP
        """
        return of_spark("frames.spark_source").from_data_frame(self, data_frame)

    def from_streaming_data_frame(
        self,
        data_frame: object,
        watermark: WatermarkStrategy | None = None,
        *,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, object] | None = None,
        query_name: str | None = None,
    ) -> DataStream[Row]:
        """Make a stream of the rows of a query of Structured Streaming, which starts and ends with the job.

        Each micro-batch is sent to the job's tasks by those of Spark, and ends for the query once the job has a
        complete checkpoint behind it. One that Spark repeats counts once, whatever has failed. When the query comes to
        its end, or is stopped, the job ends, too.

        Parameters
        ----------
        data_frame : pyspark.sql.DataFrame
            A streaming one of a classic session, as ``spark.readStream`` gives it. Rows are of the type that its schema
            says; see `from_data_frame`.
        watermark : WatermarkStrategy, optional
            How rows come to event time, which moves at the end of each micro-batch; by default they have none.
        checkpoint_location : str, optional
            Where the query keeps how far it has come: the same whenever the job goes on from its checkpoints. By
            default a temporary directory, for a job that never does.
        trigger : mapping, optional
            As in ``writeStream.trigger(**trigger)``: ``{"processingTime": "1 second"}``, ``{"availableNow": True}``;
            by default one micro-batch follows the other.
        query_name : str, optional

        Raises
        ------
        TypeError, ValueError
            If it is no streaming DataFrame, has columns that Arrow or the stream has no place for, or Spark refuses
            `trigger`. At the start of the job: if checkpoints are not enabled, or Spark has too few slots.

        Examples
        --------
        >>> _ = env.enable_checkpointing(60_000)  # doctest: +SKIP
        >>> rates = spark.readStream.format("rate").load()  # doctest: +SKIP
        >>> env.from_streaming_data_frame(rates).map(lambda row: row.value).print()  # doctest: +SKIP
        """
        return of_spark("streams.query_feed").from_streaming_data_frame(
            self,
            data_frame,
            watermark,
            checkpoint_location=checkpoint_location,
            trigger=trigger,
            query_name=query_name,
        )

    # --- execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run all that was made since the last execution, and wait for its end.

        Where it runs is the option ``execution.target``: ``local``, processes of this machine; ``spark``, Spark's
        executors; ``embedded``, threads of this process. Unset, it is Spark if a session is active, else local.

        Raises
        ------
        Exception
            What a function raised, with operator, subtask and record said on it.
        ValueError
            If there is nothing to run, or the program contradicts itself.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Counted(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_int_counter("seen")
        ...     def map(self, value):
        ...         self.seen.add(1)
        ...         return value
        >>> _ = env.from_collection(["to", "be"]).map(Counted()).add_sink(lambda word: None)
        >>> result = env.execute("words")
        >>> result.get_accumulator_result("seen")
        2
        """
        try:
            job, end = self._make_job(job_name, can_be_taken_over=True)
            with self._progress_of(job):
                job.run()
            return end.result.result()
        finally:
            the_termination.give_back()

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Run all that was made since the last execution, and go on at once; several jobs may run side by side.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection(["to", "be"]).add_sink(lambda word: None)
        >>> client = env.execute_async("words")
        >>> result = client.get_job_execution_result().result()  # waits for the end
        >>> client.get_job_status().result().name
        'FINISHED'
        """
        job, end = self._make_job(job_name, can_be_taken_over=True)
        job.start()
        return JobClient(job, end)

    def get_execution_plan(self) -> str:
        """Return the operators and their edges as Flink's JSON; nothing is run.

        Examples
        --------
        >>> import json
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([3, -1]).key_by(lambda n: n % 2).sum().print()
        >>> nodes = json.loads(env.get_execution_plan())["nodes"]
        >>> [(node["type"], node["predecessors"][0]["ship_strategy"]) for node in nodes if "predecessors" in node]
        [('Reduce', 'HASH'), ('Sink: Print to Std. Out', 'FORWARD')]
        """
        from flinkbuf.runtime.graph.execution_plan import to_json

        was_used(self._program)
        return to_json(self._stream_graph(None, self._runs_in_program()))

    def explain(self) -> None:
        """Print tasks, operators and the ways between them; nothing is run.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([3, -1]).map(abs).key_by(lambda n: n % 2).sum().set_parallelism(2).print()
        >>> env.explain()
        Flink Streaming Job: 3 tasks, 4 subtasks, 2 slots
        <BLANKLINE>
        [1] Source: Collection Source -> Map  x 1
        <BLANKLINE>
        [2] Reduce  x 2
            from [1] by HASH
        <BLANKLINE>
        [3] Sink: Print to Std. Out  x 1
            from [2] by REBALANCE
        """
        from flinkbuf.runtime.graph.execution_plan import draw
        from flinkbuf.runtime.graph.job_graph import build_job_graph

        was_used(self._program)
        print(draw(build_job_graph(self._stream_graph(None, self._runs_in_program()))))

    def close(self) -> None:
        """Do nothing: an environment holds nothing that must be freed."""

    # --- inside

    def _check_configuration(self) -> None:
        """Read every option that acts, so that a wrong value is found where it was set."""
        for option in options.OPTIONS.values():
            options.read(self._configuration, option)
        job_options.network_config_of(self._configuration)
        job_options.master_config_of(self._configuration)
        job_options.restart_of(self._configuration, has_checkpoints=False)
        job_options.termination_of(self._configuration)
        checkpoint_options.checkpointing_of(self._configuration)
        checkpoint_options.high_availability_of(self._configuration)
        web_options.web_config_of(self._configuration)

    def _source(
        self,
        name: str,
        type_info: TypeInformation | None,
        factory: Callable[[], Any],
        *,
        is_parallel: bool,
        is_legacy_source: bool = False,
        is_bounded: bool | None = True,
    ) -> DataStream[T]:
        parallelism = self.get_parallelism() if is_parallel else 1
        operator = OperatorTransformation(
            name,
            type_info,
            [],
            parallelism,
            factory=factory,
            is_source=True,
            is_bounded=is_bounded,
            is_legacy_source=is_legacy_source,
            max_allowed_parallelism=None if is_parallel else 1,
            contract="Data Source",
        )
        return DataStream(self, operator)

    def _add_operator(self, operator: OperatorTransformation) -> None:
        """Note an operator that reads something; a source alone is no program."""
        self._operators.append(operator)
        if operator.is_sink:
            note_sink(self._program)

    def _note_side_output(
        self, operator: OperatorTransformation, tag_id: str, type_info: TypeInformation | None
    ) -> None:
        known = self._side_outputs.setdefault((operator.id, tag_id), type_info)
        if known != type_info:
            raise ValueError(
                f"A side output with a matching id was already requested with a different type: {tag_id!r} of "
                f"{operator.name!r}"
            )

    def _runs_in_program(self) -> bool:
        return job_options.target_name(self._configuration) == "embedded"

    def _stream_graph(self, job_name: str | None, runs_in_program: bool) -> StreamGraph:
        from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph

        max_parallelism = self.get_max_parallelism()
        is_batch = runs_in_batch(self._operators, options.read(self._configuration, options.RUNTIME_MODE))
        default_name = options.DEFAULT_BATCH_JOB_NAME if is_batch else DEFAULT_JOB_NAME
        shuffle_mode = options.read(self._configuration, options.BATCH_SHUFFLE_MODE)
        settings = GraphSettings(
            job_name=job_name or options.read(self._configuration, options.JOB_NAME) or default_name,
            parallelism=self.get_parallelism(),
            max_parallelism=max_parallelism if max_parallelism > 0 else None,
            buffer_timeout_ms=self.get_buffer_timeout(),
            is_chaining_enabled=self.is_chaining_enabled(),
            chains_different_max_parallelism=(self.is_chaining_of_operators_with_different_max_parallelism_enabled()),
            needs_uids=not self.get_config().has_auto_generated_uids_enabled(),
            runs_in_program=runs_in_program,
            is_batch=is_batch,
            is_blocking=shuffle_mode == "ALL_EXCHANGES_BLOCKING",
            slot_limit=options.read(self._configuration, options.SLOT_LIMIT),
        )
        return build_stream_graph(self._operators, settings)

    def _execution_settings(self, is_batch: bool = False) -> ExecutionSettings:
        config = self.get_config()
        settings = ExecutionSettings(
            is_batch=is_batch,
            sorted_inputs_memory=options.read(self._configuration, options.SORTED_INPUTS_MEMORY),
            auto_watermark_interval_ms=config.get_auto_watermark_interval(),
            latency_tracking_interval_ms=config.get_latency_tracking_interval(),
            latency_granularity=options.read(self._configuration, options.LATENCY_GRANULARITY),
            latency_history_size=options.read(self._configuration, options.LATENCY_HISTORY_SIZE),
            object_reuse=options.read(self._configuration, options.OBJECT_REUSE),
            task_cancellation_interval_ms=config.get_task_cancellation_interval(),
            task_cancellation_timeout_ms=config.get_task_cancellation_timeout(),
            job_parameters=config.get_global_job_parameters(),
        )
        settings = checkpoint_options.with_checkpoints(settings, self._configuration)
        if is_batch and settings.checkpointing_enabled:
            warn(
                "checkpoints are switched off: a batch job keeps what its tasks have written instead, so that after a "
                "failure only those begin again whose results are needed and gone"
            )
        return dataclasses.replace(settings, checkpointing_enabled=settings.checkpointing_enabled and not is_batch)

    def _job_files(self) -> JobFiles:
        """What was added, and what the options name."""

        read = partial(options.read, self._configuration)
        files = [str(existing(path, "Python file")) for path in read(options.PYTHON_FILES)]
        for path in files:
            _make_importable(path)
        archives = [PythonArchive.of(*text.split("#", 1)) for text in read(options.PYTHON_ARCHIVES)]
        cached = {each.name: each for each in map(_cached_file, read(options.CACHED_FILES))}
        return JobFiles(
            [*self._python_files, *(path for path in files if path not in self._python_files)],
            [*self._archives, *(each for each in archives if each not in self._archives)],
            list({**cached, **self._cached_files}.values()),
        )

    def _make_job(
        self,
        job_name: str | None,
        *on_end: Callable[[BaseException | None], None],
        clock: Clock | None = None,
        target_name: str | None = None,
        can_be_taken_over: bool = False,
    ) -> tuple[ProgramJob, JobEnd]:
        """Make a job of the program, which is forgotten then: the next execution runs what is made from now on."""
        watched = the_termination.watch(job_options.termination_of(self._configuration))
        try:
            return self._make_watched_job(watched, job_name, on_end, clock, target_name, can_be_taken_over)
        except BaseException:
            the_termination.forget(watched)
            raise

    def _make_watched_job(
        self,
        watched: WatchedJob,
        job_name: str | None,
        on_end: Iterable[Callable[[BaseException | None], None]],
        clock: Clock | None,
        target_name: str | None,
        can_be_taken_over: bool,
    ) -> tuple[ProgramJob, JobEnd]:
        from flinkbuf.datastream.program.job_start import ends_of, start_of

        form = options.read(self._configuration, options.LOG_FORMAT)
        if form is not None:
            log_to_stderr(form)
        self._warn_of_keys(target_name or job_options.target_name(self._configuration))
        end = JobEnd(options.read(self._configuration, options.ARCHIVE_DIRECTORY))
        files = self._job_files()
        web = web_options.web_config_of(self._configuration)
        if web.is_watched:
            from flinkbuf.web.serving import check

            web = check(web)  # before anything of the job is there
        start = start_of(self, job_name, files, target_name, can_be_taken_over=can_be_taken_over)
        served: list[Served] = []

        def end_serving(error: BaseException | None) -> None:
            for each in served:
                each.end()

        calls: list[Callable[[BaseException | None], None]] = [watched.ending, lambda error: files.close()]
        calls += [*ends_of(start.stored.graph), *on_end, end_serving, end, watched.ended]
        job = end.job = start.make(clock=clock, on_end=calls, is_rescalable=web.is_served)
        if not isinstance(job, EndedJob):
            watched.is_of(cast(StoppableJob, job))
        self._forget_program()
        if web.is_watched and not isinstance(job, EndedJob):
            served.append(self._serve(job, web))
        return job, end

    def _serve(self, job: RunningJob | RescalableJob, web: WebConfig) -> Served:
        from flinkbuf.web.serving import serve_and_say

        return serve_and_say(job, web, self._configuration.shown(), self._shown_parameters(), sys.stderr)

    def _shown_parameters(self) -> dict[str, str]:
        """What functions can ask for, without secrets."""
        return hide_sensitive_values(options.read(self._configuration, options.GLOBAL_JOB_PARAMETERS))

    def _bundle_fields(self, files: JobFiles) -> dict[str, object]:
        """What the processes of a job need besides its functions."""
        return {
            "files": files,
            "network": job_options.network_config_of(self._configuration),
            "managed_memory_bytes": options.read(self._configuration, options.MANAGED_MEMORY),
            "temporary_directories": options.read(self._configuration, options.TEMPORARY_DIRECTORIES),
            "log_format": options.read(self._configuration, options.LOG_FORMAT) or TEXT,
        }

    def _program_for_spark(self, job_name: str | None) -> tuple[JobGraph, ExecutionSettings, dict[str, object]]:
        """Return what Spark runs when it computes a stream: graph, settings, and what else a job is made with.

        The program is still there afterwards; `_forget_program` ends that.
        """
        from flinkbuf.datastream.program.job_start import check_checkpoints
        from flinkbuf.runtime.graph.job_graph import build_job_graph

        was_used(self._program)
        graph = build_job_graph(self._stream_graph(job_name, False))
        self._warn_of_keys("spark")
        made_with = {"config": self._master_config(), "bundle_fields": self._bundle_fields(self._job_files())}
        settings = self._execution_settings(graph.settings.is_batch)
        check_checkpoints(graph, dataclasses.replace(settings, checkpointing_enabled=False))
        if settings.checkpointing_enabled:
            warn(
                "a job whose results go to Spark by to_rdd() or to_data_frame() keeps no checkpoints: Spark computes "
                "it again from its beginning; write to a sink of flinkbuf, and use execute(), for results that survive"
            )
            settings = dataclasses.replace(settings, checkpointing_enabled=False)
        return graph, settings, made_with

    def _forget_program(self) -> None:
        """The next execution runs what is made from now on."""
        self._operators = []
        self._side_outputs = {}
        was_used(self._program)

    def _master_config(self, subtask_count: int = 0) -> JobMasterConfig:
        """Counts come with heartbeats: who looks at them wants them more often, unless it was said how often."""
        config = job_options.master_config_of(self._configuration)
        is_watched = self._shows_progress() or web_options.web_config_of(self._configuration).is_watched
        if is_watched and not self._configuration.contains_key(options.HEARTBEAT_INTERVAL.key):
            interval_ms = min(config.heartbeat_interval_ms, max(SHOWN_HEARTBEAT_MS, subtask_count * MS_A_SUBTASK))
            config = dataclasses.replace(config, heartbeat_interval_ms=interval_ms)
        return config

    def _shows_progress(self) -> bool:
        choice = options.read(self._configuration, options.PROGRESS)
        return choice == "on" or (choice == "auto" and sys.stderr is not None and sys.stderr.isatty())

    def _progress_of(self, job: ProgramJob) -> contextlib.AbstractContextManager[object]:
        """What shows a job on the terminal, if it is wanted."""
        from flinkbuf.runtime.driver.ended_job import EndedJob
        from flinkbuf.runtime.picture.progress import JobProgress

        if isinstance(job, EndedJob) or not self._shows_progress():
            return contextlib.nullcontext()
        factories = (operator.factory for vertex in job.graph.vertices for operator in vertex.chain.operators)
        prints_elsewhere = not job.target.is_in_process and any(
            isinstance(factory, PrintSinkFactory) for factory in factories
        )
        return JobProgress(job, in_place=sys.stderr.isatty() and not (prints_elsewhere and sys.stdout.isatty()))

    def _warn_of_keys(self, target_name: str) -> None:
        without_effect = options.keys_without_effect(self._configuration.key_set(), target_name)
        if without_effect:
            warn(f"these settings have no effect in flinkbuf: {', '.join(without_effect)}")

    def _collected(
        self, stream: DataStream[object] | ColumnStream, job_name: str, capacity: int = DEFAULT_CAPACITY
    ) -> Collector:
        """Start the job, and return what the records of a stream come to."""
        collector = Collector(capacity)
        stream._collect_to(collector)
        job, _ = self._make_job(job_name, collector.finish)
        collector.on_close = job.cancel
        job.start()
        return collector


def _make_importable(path: str) -> None:
    """Here, too: the program's own functions are looked at in this process first."""
    place = import_place(path)
    if place not in sys.path:
        sys.path.append(place)


def _cached_file(pairs: dict[str, str]) -> CachedFile:
    """One of ``pipeline.cached-files``."""
    if not {"name", "path"} <= pairs.keys():
        raise ValueError(f"{options.CACHED_FILES.key} needs name:...,path:... for each file, got {pairs}")
    is_executable = pairs.get("executable", "false").lower() == "true"
    return CachedFile(pairs["name"], str(existing(pairs["path"], "file")), is_executable)
