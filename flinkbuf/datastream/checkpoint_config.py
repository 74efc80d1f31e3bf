"""When state is saved, and what happens to what was saved. Flink: CheckpointConfig.

All of it is kept in the environment's configuration, under Flink's keys.
"""

from __future__ import annotations

from flinkbuf.common import options
from flinkbuf.common.configuration import Configuration
from flinkbuf.datastream.checkpointing_mode import CheckpointingMode
from flinkbuf.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from flinkbuf.types.duration import Duration, milliseconds_of

MINIMAL_CHECKPOINT_TIME_MS = 10
_MAX_INT = 2**31 - 1


class CheckpointConfig:
    """A view of an environment's configuration. Flink's ``CheckpointConfig``.

    Examples
    --------
    >>> config = CheckpointConfig().set_checkpoint_interval(500)
    >>> config.is_checkpointing_enabled(), config.get_checkpointing_mode().name
    (True, 'EXACTLY_ONCE')
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = configuration if configuration is not None else Configuration()

    def _read(self, option: options.Option[options.T]) -> options.T:
        return options.read(self._configuration, option)

    def _set_time(self, option: options.Option, time_ms: int) -> CheckpointConfig:
        self._configuration.set_string(option.key, f"{time_ms} ms")
        return self

    def is_checkpointing_enabled(self) -> bool:
        """Tell whether an interval was set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return what is promised; AT_LEAST_ONCE as long as there are no checkpoints."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[self._read(options.CHECKPOINTING_MODE).upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set what is promised.

        Examples
        --------
        >>> from flinkbuf.datastream import CheckpointingMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(500)
        >>> config = env.get_checkpoint_config().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
        >>> config.get_checkpointing_mode().name, env.get_checkpointing_mode().name
        ('AT_LEAST_ONCE', 'AT_LEAST_ONCE')
        """
        self._configuration.set_string(options.CHECKPOINTING_MODE.key, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between two checkpoints in milliseconds; -1: there are none."""
        return self._read(options.CHECKPOINT_INTERVAL)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Make a checkpoint every so many milliseconds.

        Examples
        --------
        >>> config = CheckpointConfig()
        >>> config.get_checkpoint_interval(), config.is_checkpointing_enabled()
        (-1, False)
        >>> config = config.set_checkpoint_interval(500)
        >>> config.get_checkpoint_interval(), config.is_checkpointing_enabled()
        (500, True)
        >>> config.set_checkpoint_interval(1)
        Traceback (most recent call last):
            ...
        ValueError: Checkpoint interval must be larger than or equal to 10 ms, got 1
        """
        if isinstance(checkpoint_interval, bool) or not isinstance(checkpoint_interval, int):
            raise TypeError(
                "a checkpoint interval is an int of milliseconds, got "
                f"{type(checkpoint_interval).__name__} {checkpoint_interval!r}"
            )
        if checkpoint_interval < MINIMAL_CHECKPOINT_TIME_MS:
            raise ValueError(
                f"Checkpoint interval must be larger than or equal to {MINIMAL_CHECKPOINT_TIME_MS} ms, "
                f"got {checkpoint_interval}"
            )
        return self._set_time(options.CHECKPOINT_INTERVAL, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """Return after how many milliseconds a checkpoint is given up."""
        return self._read(options.CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Give a checkpoint up after so many milliseconds.

        Examples
        --------
        >>> CheckpointConfig().set_checkpoint_timeout(30_000).get_checkpoint_timeout()
        30000
        >>> CheckpointConfig().get_checkpoint_timeout()  # ten minutes, unless it is set
        600000
        """
        if checkpoint_timeout < MINIMAL_CHECKPOINT_TIME_MS:
            raise ValueError(
                f"Checkpoint timeout must be larger than or equal to {MINIMAL_CHECKPOINT_TIME_MS} ms, "
                f"got {checkpoint_timeout}"
            )
        return self._set_time(options.CHECKPOINT_TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least time between the end of a checkpoint and the next, in milliseconds."""
        return self._read(options.CHECKPOINT_MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Wait at least so many milliseconds after the end of a checkpoint.

        Examples
        --------
        >>> config = CheckpointConfig().set_checkpoint_interval(1000).set_min_pause_between_checkpoints(400)
        >>> config.get_min_pause_between_checkpoints()  # one that took 900 ms is followed 400 ms later
        400
        """
        if min_pause_between_checkpoints < 0:
            raise ValueError(f"Pause value must be zero or positive, got {min_pause_between_checkpoints}")
        return self._set_time(options.CHECKPOINT_MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many checkpoints may be on their way at a time."""
        return self._read(options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Let so many checkpoints be on their way at a time.

        Examples
        --------
        >>> CheckpointConfig().set_max_concurrent_checkpoints(2).get_max_concurrent_checkpoints()
        2
        >>> CheckpointConfig().set_max_concurrent_checkpoints(0)
        Traceback (most recent call last):
            ...
        ValueError: The maximum number of concurrent attempts must be at least one, got 0
        """
        if max_concurrent_checkpoints < 1:
            raise ValueError(
                f"The maximum number of concurrent attempts must be at least one, got {max_concurrent_checkpoints}"
            )
        self._configuration.set_integer(options.MAX_CONCURRENT_CHECKPOINTS.key, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Tell whether the first checkpoint that fails ends the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Let the first checkpoint that fails end the job, or none.

        Examples
        --------
        >>> config = CheckpointConfig().set_fail_on_checkpointing_errors(False)
        >>> config.is_fail_on_checkpointing_errors(), config.get_tolerable_checkpoint_failure_number()
        (False, 2147483647)
        >>> config.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number()
        0
        """
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _MAX_INT)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints in a row may fail."""
        return self._read(options.TOLERABLE_CHECKPOINT_FAILURES)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Let so many checkpoints in a row fail.

        Examples
        --------
        >>> config = CheckpointConfig().set_tolerable_checkpoint_failure_number(3)
        >>> config.get_tolerable_checkpoint_failure_number(), config.is_fail_on_checkpointing_errors()
        (3, False)
        """
        if tolerable_checkpoint_failure_number < 0:
            raise ValueError(
                "The tolerable failure checkpoint number must be non-negative, got "
                f"{tolerable_checkpoint_failure_number}"
            )
        self._configuration.set_integer(options.TOLERABLE_CHECKPOINT_FAILURES.key, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Say what becomes of the last checkpoint when the job is cancelled.

        Examples
        --------
        >>> from flinkbuf.datastream import ExternalizedCheckpointRetention
        >>> kept = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        >>> config = CheckpointConfig().set_externalized_checkpoint_retention(kept)
        >>> config.get_externalized_checkpoint_retention().name, config.is_externalized_checkpoints_enabled()
        ('RETAIN_ON_CANCELLATION', True)
        """
        self._configuration.set_string(options.CHECKPOINT_RETENTION.key, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Tell whether checkpoints are meant to be found by others."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return what becomes of the last checkpoint when the job is cancelled."""
        return ExternalizedCheckpointRetention[self._read(options.CHECKPOINT_RETENTION).upper()]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Tell whether barriers may overtake records; only with EXACTLY_ONCE."""
        is_exact = self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        return bool(self._read(options.UNALIGNED_CHECKPOINTS)) and (
            is_exact or not self._configuration.contains_key(options.CHECKPOINTING_MODE.key)
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records, which are then part of the checkpoint.

        Examples
        --------
        >>> from flinkbuf.datastream import CheckpointingMode
        >>> config = CheckpointConfig().set_checkpoint_interval(500).enable_unaligned_checkpoints()
        >>> config.is_unaligned_checkpoints_enabled()
        True
        >>> config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE).is_unaligned_checkpoints_enabled()
        False
        """
        self._configuration.set_boolean(options.UNALIGNED_CHECKPOINTS.key, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let barriers wait behind records.

        Examples
        --------
        >>> config = CheckpointConfig().set_checkpoint_interval(500).enable_unaligned_checkpoints()
        >>> config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
        False
        """
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Let barriers wait so long, and only then overtake.

        Examples
        --------
        >>> from flinkbuf.common import Duration
        >>> config = CheckpointConfig().set_checkpoint_interval(500).enable_unaligned_checkpoints()
        >>> config = config.set_aligned_checkpoint_timeout(Duration.of_seconds(2))
        >>> config.get_aligned_checkpoint_timeout().to_millis()
        2000
        """
        return self._set_time(
            options.ALIGNED_CHECKPOINT_TIMEOUT, milliseconds_of("alignment_timeout", alignment_timeout)
        )

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return how long barriers wait before they overtake."""
        return Duration.of_millis(self._read(options.ALIGNED_CHECKPOINT_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """As `set_aligned_checkpoint_timeout`.

        Examples
        --------
        >>> from flinkbuf.common import Duration
        >>> config = CheckpointConfig().set_alignment_timeout(Duration.of_seconds(2))
        >>> config.get_alignment_timeout() == config.get_aligned_checkpoint_timeout()
        True
        """
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """As `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Keep it, without effect: Flink asks for it where a job has iterations, which there are none of.

        Examples
        --------
        >>> CheckpointConfig().set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
        True
        >>> CheckpointConfig().set_force_unaligned_checkpoints().is_unaligned_checkpoints_enabled()  # it enables none
        False
        """
        self._configuration.set_boolean(options.FORCED_UNALIGNED_CHECKPOINTS.key, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return what `set_force_unaligned_checkpoints` was given, which has no effect."""
        return self._read(options.FORCED_UNALIGNED_CHECKPOINTS)
