"""How a program's operators run: parallelism, watermark interval, chaining, parameters. Flink: ExecutionConfig."""

from __future__ import annotations

import os

from flinkbuf.common import options
from flinkbuf.common.configuration import Configuration, map_text, value_text

_NO_KRYO = "records are encoded by flinkbuf's own codecs: there is no Kryo or Avro to choose"


def default_parallelism() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ExecutionConfig:
    """A view of an environment's configuration. Flink's ``ExecutionConfig``.

    Examples
    --------
    >>> config = ExecutionConfig()
    >>> config.set_auto_watermark_interval(50).get_auto_watermark_interval()
    50
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = configuration if configuration is not None else Configuration()

    def _read(self, option: options.Option[options.T]) -> options.T:
        return options.read(self._configuration, option)

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Functions are sent by cloudpickle, which takes along what they need, whatever is said here."""
        self._configuration.set_string(options.CLOSURE_CLEANER.key, "RECURSIVE")
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """As `enable_closure_cleaner`."""
        self._configuration.set_string(options.CLOSURE_CLEANER.key, "NONE")
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """Return what was said."""
        return self._read(options.CLOSURE_CLEANER) != "NONE"

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Ask generators for a watermark every so many milliseconds; 0: only when a record comes."""
        if interval < 0:
            raise ValueError(f"Auto watermark interval must not be negative, got {interval}")
        self._configuration.set_string(options.AUTO_WATERMARK_INTERVAL.key, f"{interval} ms")
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return it in milliseconds; 200 unless set."""
        return self._read(options.AUTO_WATERMARK_INTERVAL)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Let sources send a latency marker every so many milliseconds; 0 or less: none."""
        self._configuration.set_string(options.LATENCY_INTERVAL.key, f"{max(0, interval)} ms")
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return it in milliseconds; 0 unless set."""
        return self._read(options.LATENCY_INTERVAL)

    def get_parallelism(self) -> int:
        """Return how many subtasks an operator has by default: as many as there are cores, unless set."""
        parallelism = self._read(options.PARALLELISM)
        return default_parallelism() if parallelism is None else parallelism

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set how many subtasks the operators that are made from now on have by default; -1: as many as cores."""
        if parallelism < 1 and parallelism not in (self.PARALLELISM_DEFAULT, self.PARALLELISM_UNKNOWN):
            raise ValueError(
                "Parallelism must be at least one, or ExecutionConfig.PARALLELISM_DEFAULT (use system default), "
                f"got {parallelism}"
            )
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.PARALLELISM.key)
        elif parallelism > 0:
            self._configuration.set_integer(options.PARALLELISM.key, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1: chosen from the parallelism."""
        return self._read(options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups: the most subtasks that state can ever be spread over."""
        if max_parallelism <= 0:
            raise ValueError(f"The maximum parallelism must be greater than 0, got {max_parallelism}")
        self._configuration.set_integer(options.MAX_PARALLELISM.key, max_parallelism)
        return self

    def get_task_cancellation_interval(self) -> int:
        """Return after how many milliseconds a cancelled task is interrupted again."""
        return self._read(options.CANCELLATION_INTERVAL)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Interrupt a cancelled task every so many milliseconds."""
        self._configuration.set_string(options.CANCELLATION_INTERVAL.key, f"{max(0, interval)} ms")
        return self

    def get_task_cancellation_timeout(self) -> int:
        """Return after how many milliseconds a cancelled task that does not end is given up."""
        return self._read(options.CANCELLATION_TIMEOUT)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Give a cancelled task up after so many milliseconds; 0: never."""
        if timeout < 0:
            raise ValueError(f"Timeout needs to be >= 0, got {timeout}")
        self._configuration.set_string(options.CANCELLATION_TIMEOUT.key, f"{timeout} ms")
        return self

    def enable_force_kryo(self) -> ExecutionConfig:
        """Raise: there is no Kryo."""
        raise NotImplementedError(_NO_KRYO)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Do nothing: there is no Kryo."""
        return self

    def is_force_kryo_enabled(self) -> bool:
        """Return False."""
        return False

    def enable_generic_types(self) -> ExecutionConfig:
        """Let streams have no declared type; that is so unless `disable_generic_types` was called."""
        self._configuration.remove_config("pipeline.generic-types")
        return self

    def disable_generic_types(self) -> ExecutionConfig:
        """Raise: in a Python program most streams have no declared type."""
        raise NotImplementedError(
            "streams without a declared type cannot be forbidden: most functions need none in Python"
        )

    def has_generic_types_disabled(self) -> bool:
        """Return False."""
        return False

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Let operators without a uid have ids made from the graph."""
        self._configuration.set_boolean(options.GENERATES_UIDS.key, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Demand a uid of every operator, so that no change of the program loses state."""
        self._configuration.set_boolean(options.GENERATES_UIDS.key, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Tell whether operators without a uid are allowed."""
        return self._read(options.GENERATES_UIDS)

    def enable_force_avro(self) -> ExecutionConfig:
        """Raise: there is no Avro."""
        raise NotImplementedError(_NO_KRYO)

    def disable_force_avro(self) -> ExecutionConfig:
        """Do nothing: there is no Avro."""
        return self

    def is_force_avro_enabled(self) -> bool:
        """Return False."""
        return False

    def enable_object_reuse(self) -> ExecutionConfig:
        """Give all ways that a record goes within a task the same object, not each its own copy of what can change."""
        self._configuration.set_boolean(options.OBJECT_REUSE.key, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """As `enable_object_reuse`."""
        self._configuration.set_boolean(options.OBJECT_REUSE.key, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Return what was said."""
        return self._read(options.OBJECT_REUSE)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return what functions can ask their runtime context for."""
        return dict(self._read(options.GLOBAL_JOB_PARAMETERS))

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, object]) -> ExecutionConfig:
        """Set what functions can ask their runtime context for: names and texts."""
        pairs = {key: value_text(value) for key, value in global_job_parameters_dict.items()}
        self._configuration.set_string(options.GLOBAL_JOB_PARAMETERS.key, map_text(pairs))
        return self

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return none: there is no Kryo."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Return none: there is no Kryo."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Return none: there are no Java classes."""
        return []

    def is_use_snapshot_compression(self) -> bool:
        """Tell whether snapshots of state are compressed."""
        return self._read(options.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Set whether snapshots of state are compressed."""
        self._configuration.set_boolean(options.SNAPSHOT_COMPRESSION.key, use_snapshot_compression)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)
