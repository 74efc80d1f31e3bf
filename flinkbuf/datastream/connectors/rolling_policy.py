"""When a part file of a sink is complete. Decides only.

PyFlink: RollingPolicy of pyflink.datastream.connectors.file_system.
"""

from __future__ import annotations

from flinkbuf.streaming.sinks.part_file import PartFileInfo

__all__ = ["DefaultRollingPolicy", "OnCheckpointRollingPolicy", "RollingPolicy"]


class RollingPolicy:
    """When to begin a new part file; a subclass overrides what it cares for."""

    def should_roll_on_event(self, part: PartFileInfo, element: object) -> bool:
        """Asked before each record."""
        return False

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Asked every bucket check interval."""
        return False

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Asked at each checkpoint."""
        return False

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Roll by size and age.

        Parameters
        ----------
        part_size : int, default 128 MiB
            A part of more bytes is complete.
        rollover_interval, inactivity_interval : int, default 60,000
            Milliseconds after which a part is complete: since it was begun, and since its last record.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Roll at each checkpoint, and only then."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size and age. Flink: DefaultRollingPolicy.

    Examples
    --------
    >>> policy = DefaultRollingPolicy(part_size=10, rollover_interval=1_000, inactivity_interval=500)
    >>> part = PartFileInfo("", creation_ms=0, last_update_ms=400, size=11)
    >>> policy.should_roll_on_event(part, "x"), policy.should_roll_on_processing_time(part, 899)
    (True, False)
    """

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        for name, value in (
            ("part_size", part_size),
            ("rollover_interval", rollover_interval),
            ("inactivity_interval", inactivity_interval),
        ):
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero, got {value}")
        self.part_size = part_size
        self.rollover_interval = rollover_interval
        self.inactivity_interval = inactivity_interval

    def should_roll_on_event(self, part: PartFileInfo, element: object) -> bool:
        """Whether it is too large."""
        return part.size > self.part_size

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Whether it is too old."""
        is_old = now_ms - part.creation_ms >= self.rollover_interval
        return is_old or now_ms - part.last_update_ms >= self.inactivity_interval

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Whether it is too large."""
        return part.size > self.part_size


class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at each checkpoint, and only then. Flink: OnCheckpointRollingPolicy."""

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Always."""
        return True
