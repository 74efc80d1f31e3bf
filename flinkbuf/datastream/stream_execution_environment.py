"""Where a program begins and is executed. Flink: StreamExecutionEnvironment."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flinkbuf.common import options
from flinkbuf.common.configuration import Configuration
from flinkbuf.common.execution_config import ExecutionConfig, default_parallelism
from flinkbuf.common.job_client import JobClient, JobEnd
from flinkbuf.common.job_execution_result import JobExecutionResult
from flinkbuf.datastream.arguments import MAX_PARALLELISM_LIMIT, declared
from flinkbuf.datastream.checkpoint_config import CheckpointConfig
from flinkbuf.datastream.checkpointing_mode import CheckpointingMode
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.datastream.data_stream_sink import CloseableIterator
from flinkbuf.datastream.execution_mode import RuntimeExecutionMode
from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup
from flinkbuf.jobs.transformation import OperatorTransformation
from flinkbuf.streaming.clock import Clock
from flinkbuf.streaming.collect import Collector
from flinkbuf.streaming.functions import ParallelSourceFunction
from flinkbuf.streaming.operator_config import ExecutionSettings
from flinkbuf.streaming.source_factories import COLLECTION_SOURCE_NAME, CollectionSourceFactory, source_factory_of
from flinkbuf.streaming.watermark_strategy import WatermarkStrategy
from flinkbuf.types.type_information import TypeInformation

DEFAULT_JOB_NAME = "Flink Streaming Job"
_NO_BATCH = (
    "flinkbuf runs programs as streams, where an aggregation gives a result for each record; a batch job gives one for "
    "each key at the end. Use a window over all records instead, or leave the mode as it is"
)
_NO_JVM = "there is no JVM that could load them: connectors of flinkbuf are Python classes"


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
        self._configuration = Configuration(configuration)
        self._operators: list[OperatorTransformation] = []
        self._side_outputs: dict[tuple[int, str], TypeInformation | None] = {}
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._cached_files: dict[str, tuple[str, bool]] = {}
        self._local_parallelism: int | None = None
        self._check_configuration()

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Make an environment.

        Parameters
        ----------
        configuration : Configuration, optional
            Settings by Flink's keys; they are copied.
        """
        return StreamExecutionEnvironment(configuration)

    # --- how it runs

    def get_config(self) -> ExecutionConfig:
        """Return the settings of execution; what is set there holds here."""
        return ExecutionConfig(self._configuration)

    def configure(self, configuration: Configuration) -> None:
        """Take over settings by Flink's keys."""
        before = Configuration(self._configuration)
        self._configuration.add_all(configuration)
        try:
            self._check_configuration()
        except (ValueError, NotImplementedError):
            self._configuration = before
            raise

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set how many subtasks the operators that are made from now on have by default."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return how many subtasks operators have by default; as many as there are cores, unless set."""
        if self._local_parallelism is not None and not self._configuration.contains_key(options.PARALLELISM.key):
            return self._local_parallelism
        return self.get_config().get_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups: the most subtasks that state can ever be spread over."""
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
        """Set how many subtasks operators have where nothing else says it."""
        if parallelism < 1:
            raise ValueError(f"Parallelism must be at least one, got {parallelism}")
        self._local_parallelism = parallelism

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Say what the slots of a group need."""
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Choose STREAMING, or AUTOMATIC, which is the same here; BATCH is refused."""
        if execution_mode is RuntimeExecutionMode.BATCH:
            raise NotImplementedError(_NO_BATCH)
        self._configuration.set_string(options.RUNTIME_MODE.key, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Send what was emitted after so many milliseconds; 0: each record at once, -1: full buffers only."""
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
        """Give each operator a task of its own."""
        self._configuration.set_boolean(options.OPERATOR_CHAINING.key, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Tell whether operators share tasks."""
        return options.read(self._configuration, options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Tell whether operators of different max parallelism share tasks."""
        return options.read(self._configuration, options.CHAIN_DIFFERENT_MAX_PARALLELISM)

    # --- checkpoints

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the settings of checkpoints; what is set there holds here."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Make a checkpoint every so many milliseconds."""
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
        """Say whether changes of state are logged as they happen."""
        self._configuration.set_boolean(options.CHANGELOG.key, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return what was said; None: nothing."""
        return options.read(self._configuration, options.CHANGELOG)

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Say where savepoints go that are told no directory."""
        self._configuration.set_string(options.SAVEPOINT_DIRECTORY.key, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return where savepoints go that are told no directory."""
        return options.read(self._configuration, options.SAVEPOINT_DIRECTORY)

    # --- what its functions need

    def add_python_file(self, file_path: str) -> None:
        """Let functions import a module, a package's directory or a zip file."""
        path = Path(file_path).resolve()
        if not path.exists():
            raise FileNotFoundError(f"no such Python file: {file_path}")
        place = str(path.parent if path.suffix == ".py" else path)
        if place not in sys.path:
            sys.path.append(place)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Do nothing but be named in a warning: functions run in this interpreter, with its packages."""
        self._configuration.set_string("python.requirements", requirements_file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Do nothing but be named in a warning: functions open files where they lie."""
        self._configuration.set_string("python.archives", archive_path)

    def set_python_executable(self, python_exec: str) -> None:
        """Do nothing but be named in a warning: functions run in this interpreter."""
        self._configuration.set_string("python.executable", python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Raise: there is no JVM."""
        raise NotImplementedError(f"jars cannot be added, since {_NO_JVM}")

    def add_classpaths(self, *classpaths: str) -> None:
        """Raise: there is no JVM."""
        raise NotImplementedError(f"class paths cannot be added, since {_NO_JVM}")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Note a file by a name; functions open it where it lies."""
        self._cached_files[name] = (file_path, executable)

    # --- sources

    def from_collection(self, collection: Iterable[Any], type_info: Any = None) -> DataStream:
        """Make a stream of the elements of any iterable, as they are now; in one subtask.

        Parameters
        ----------
        collection : iterable
        type_info : TypeInformation, optional
            What the elements are.
        """
        type_info = declared(type_info)
        factory = CollectionSourceFactory(collection, type_info)
        return self._source(COLLECTION_SOURCE_NAME, type_info, factory, is_parallel=False, is_legacy_source=True)

    def add_source(self, source_func: Any, source_name: str = "Custom Source", type_info: Any = None) -> DataStream:
        """Make a stream of what a function emits, or of any iterable; in one subtask unless it says it is parallel.

        Parameters
        ----------
        source_func : SourceFunction, iterable or callable
            An object with ``run(ctx)`` and ``cancel()``; an iterable; or a function without arguments that gives one.
        source_name : str
        type_info : TypeInformation, optional
            What the records are.
        """
        factory = source_factory_of(source_func)
        is_parallel = isinstance(source_func, ParallelSourceFunction)
        return self._source(source_name, declared(type_info), factory, is_parallel=is_parallel, is_legacy_source=True)

    def from_source(
        self, source: Any, watermark_strategy: WatermarkStrategy, source_name: str, type_info: Any = None
    ) -> DataStream:
        """Make a stream of a `Source` of ``flinkbuf.datastream.connectors``, or of one's own.

        Parameters
        ----------
        source : Source
        watermark_strategy : WatermarkStrategy
            How its records come to event time.
        source_name : str
        type_info : TypeInformation, optional
            What the records are; by default what the source says.
        """
        from flinkbuf.streaming.source_factories import SourceOperatorFactory

        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(
                f"a WatermarkStrategy is needed, got {type(watermark_strategy).__name__} {watermark_strategy!r}"
            )
        if type_info is None and hasattr(source, "get_produced_type"):
            type_info = source.get_produced_type()
        factory = SourceOperatorFactory(source, watermark_strategy)
        return self._source(source_name, declared(type_info), factory, is_parallel=True)

    def create_input(self, input_format: Any, type_info: Any = None) -> DataStream:
        """Make a stream of an input format: an iterable, or a function without arguments that gives one."""
        if type_info is None and hasattr(input_format, "get_produced_type"):
            type_info = input_format.get_produced_type()
        return self.add_source(input_format, COLLECTION_SOURCE_NAME, type_info)

    # --- execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run all that was made since the last execution, and wait for its end.

        Raises
        ------
        Exception
            What a function raised, with operator, subtask and record said on it.
        ValueError
            If there is nothing to run, or the program contradicts itself.
        """
        job, end = self._make_job(job_name)
        job.run()
        return end.result.result()

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Run all that was made since the last execution, and go on at once."""
        job, end = self._make_job(job_name)
        job.start()
        return JobClient(job, end)

    def get_execution_plan(self) -> str:
        """Return the operators and their edges as Flink's JSON; nothing is run."""
        from flinkbuf.jobs.execution_plan import to_json

        return to_json(self._stream_graph(None))

    def explain(self) -> None:
        """Print tasks, operators and the ways between them; nothing is run."""
        from flinkbuf.jobs.execution_plan import draw
        from flinkbuf.jobs.job_graph import build_job_graph

        print(draw(build_job_graph(self._stream_graph(None))))

    def close(self) -> None:
        """Do nothing: an environment holds nothing that must be freed."""

    # --- inside

    def _check_configuration(self) -> None:
        """Read every option that acts, so that a wrong value is found where it was set."""
        for option in options.OPTIONS.values():
            options.read(self._configuration, option)
        if options.read(self._configuration, options.RUNTIME_MODE).upper() == RuntimeExecutionMode.BATCH.name:
            raise NotImplementedError(_NO_BATCH)

    def _source(
        self,
        name: str,
        type_info: TypeInformation | None,
        factory: Any,
        *,
        is_parallel: bool,
        is_legacy_source: bool = False,
    ) -> DataStream:
        parallelism = self.get_parallelism() if is_parallel else 1
        operator = OperatorTransformation(
            name,
            type_info,
            [],
            parallelism,
            factory=factory,
            is_source=True,
            is_legacy_source=is_legacy_source,
            max_allowed_parallelism=None if is_parallel else 1,
            contract="Data Source",
        )
        return DataStream(self, operator)

    def _add_operator(self, operator: OperatorTransformation) -> None:
        """Note an operator that reads something; a source alone is no program."""
        self._operators.append(operator)

    def _note_side_output(
        self, operator: OperatorTransformation, tag_id: str, type_info: TypeInformation | None
    ) -> None:
        known = self._side_outputs.setdefault((operator.id, tag_id), type_info)
        if known != type_info:
            raise ValueError(
                f"A side output with a matching id was already requested with a different type: {tag_id!r} of "
                f"{operator.name!r}"
            )

    def _stream_graph(self, job_name: str | None) -> Any:
        from flinkbuf.jobs.stream_graph import GraphSettings, build_stream_graph

        max_parallelism = self.get_max_parallelism()
        settings = GraphSettings(
            job_name=job_name or options.read(self._configuration, options.JOB_NAME) or DEFAULT_JOB_NAME,
            parallelism=self.get_parallelism(),
            max_parallelism=max_parallelism if max_parallelism > 0 else None,
            buffer_timeout_ms=self.get_buffer_timeout(),
            is_chaining_enabled=self.is_chaining_enabled(),
            chains_different_max_parallelism=(self.is_chaining_of_operators_with_different_max_parallelism_enabled()),
            needs_uids=not self.get_config().has_auto_generated_uids_enabled(),
        )
        return build_stream_graph(self._operators, settings)

    def _execution_settings(self) -> ExecutionSettings:
        config = self.get_config()
        return ExecutionSettings(
            auto_watermark_interval_ms=config.get_auto_watermark_interval(),
            latency_tracking_interval_ms=config.get_latency_tracking_interval(),
            latency_granularity=options.read(self._configuration, options.LATENCY_GRANULARITY),
            latency_history_size=options.read(self._configuration, options.LATENCY_HISTORY_SIZE),
            task_cancellation_interval_ms=config.get_task_cancellation_interval(),
            checkpointing_enabled=False,  # checkpoints are still to come
            job_parameters=config.get_global_job_parameters(),
        )

    def _make_job(self, job_name: str | None, *on_end: Any, clock: Clock | None = None) -> tuple[Any, JobEnd]:
        """Make a job of the program, which is forgotten then: the next execution runs what is made from now on."""
        from flinkbuf.jobs.job_graph import build_job_graph
        from flinkbuf.jobs.running_job import RunningJob

        target = options.read(self._configuration, options.TARGET)
        if target != "embedded":
            raise ValueError(f"execution.target must be 'embedded', got {target!r}")
        graph = build_job_graph(self._stream_graph(job_name))
        self._warn_of_keys()
        end = JobEnd()
        job = end.job = RunningJob(graph, self._execution_settings(), clock=clock, on_end=[*on_end, end])
        self._operators = []
        self._side_outputs = {}
        return job, end

    def _warn_of_keys(self) -> None:
        without_effect = options.keys_without_effect(self._configuration.key_set())
        if without_effect:
            warnings.warn(
                f"these settings have no effect in flinkbuf: {', '.join(without_effect)}", UserWarning, stacklevel=4
            )

    def _execute_and_collect(self, stream: DataStream, job_name: str, limit: int | None) -> Any:
        collector = Collector()
        stream._collect_to(collector)
        job, _ = self._make_job(job_name, collector.finish)
        collector.on_close = job.cancel
        job.start()
        return CloseableIterator(collector) if limit is None else collector.take(limit)
