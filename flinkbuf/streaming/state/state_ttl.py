"""How long the values of a state live. PyFlink: StateTtlConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from flinkbuf.types.duration import Duration, Time, milliseconds_of

__all__ = ["StateTtlConfig"]

COMPACTION_PERIOD: Final = Duration.of_days(30)


class CleanupStrategy:
    """How one of the ways to clean up is set."""


class EmptyCleanupStrategy(CleanupStrategy):
    """There is nothing to set."""


class IncrementalCleanup(CleanupStrategy):
    """So many entries are looked at with each access to the state, or with each record of the operator.

    Parameters
    ----------
    cleanup_size : int
        Entries of one step.
    run_cleanup_for_every_record : bool
        Whether each record makes a step, not only each access.
    """

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        if cleanup_size < 0:
            raise ValueError(f"the entries looked at in one step of a cleanup cannot be negative, got {cleanup_size}")
        self._cleanup_size = cleanup_size
        self._is_with_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        """Return how many entries one step looks at."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Return whether each record makes a step, not only each access."""
        return self._is_with_every_record


class CompactionCleanup(CleanupStrategy):
    """What PyFlink tells RocksDB's compaction; kept for programs that ask for it again."""

    def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None) -> None:
        self._entries = query_time_after_num_entries
        self._period = periodic_compaction_time or COMPACTION_PERIOD

    def get_query_time_after_num_entries(self) -> int:
        """Return after how many entries a compaction looks at the clock."""
        return self._entries

    def get_periodic_compaction_time(self) -> Duration:
        """Return after what time a file is compacted although nothing else asks for it."""
        return self._period


class TtlCleanup:
    """When expired values go, besides when they are read.

    Parameters
    ----------
    strategies : dict
        What was chosen, by `Strategies`.
    is_cleanup_in_background : bool
        Whether what was not chosen has Flink's defaults; else it is off.
    """

    class Strategies(Enum):
        """The ways there are."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    CleanupStrategy = CleanupStrategy
    EmptyCleanupStrategy = EmptyCleanupStrategy
    IncrementalCleanupStrategy = IncrementalCleanup
    RocksdbCompactFilterCleanupStrategy = CompactionCleanup
    EMPTY_STRATEGY: ClassVar = EmptyCleanupStrategy()

    def __init__(self, strategies: Mapping[TtlCleanup.Strategies, Any], is_cleanup_in_background: bool) -> None:
        self._chosen = dict(strategies)
        self._has_defaults = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Whether values are cleaned up although no strategy was chosen."""
        return self._has_defaults

    def in_full_snapshot(self) -> bool:
        """Whether a snapshot leaves expired values out."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._chosen

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanup | None:
        """Return the chosen steps, the default ones, or None."""
        default = IncrementalCleanup(5, run_cleanup_for_every_record=False) if self._has_defaults else None
        return self._chosen.get(self.Strategies.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> CompactionCleanup | None:
        """Return what was chosen for RocksDB, the default, or None."""
        default = CompactionCleanup(1000) if self._has_defaults else None
        return self._chosen.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)


@dataclass(frozen=True, eq=False, repr=False)
class StateTtlConfig:
    """When the values of a state expire, what is seen of expired ones, and when they are cleaned up.

    Parameters
    ----------
    update_type : StateTtlConfig.UpdateType
    state_visibility : StateTtlConfig.StateVisibility
    ttl_time_characteristic : StateTtlConfig.TtlTimeCharacteristic
    ttl : Time or Duration
        How long a value lives; greater than zero.
    cleanup_strategies : StateTtlConfig.CleanupStrategies

    Examples
    --------
    >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    >>> config.get_ttl().to_milliseconds(), config.get_update_type().name
    (3600000, 'OnReadAndWrite')
    """

    class UpdateType(Enum):
        """What a value's life begins anew with."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether a value is seen between its end and its cleaning."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock that lives are measured by."""

        ProcessingTime = 0

    update_type: UpdateType
    state_visibility: StateVisibility
    ttl_time_characteristic: TtlTimeCharacteristic
    ttl: Time | Duration
    cleanup_strategies: TtlCleanup

    CleanupStrategies = TtlCleanup
    Builder: ClassVar[Any]

    def __post_init__(self) -> None:
        if milliseconds_of("ttl", self.ttl) <= 0:
            raise ValueError(f"a time to live is greater than zero, got {self.ttl}")

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfigBuilder:
        """Return a builder with Flink's defaults.

        Examples
        --------
        >>> config = StateTtlConfig.new_builder(Time.minutes(5)).cleanup_full_snapshot().build()
        >>> config.is_enabled(), config.get_state_visibility().name, config.get_ttl_time_characteristic().name
        (True, 'NeverReturnExpired', 'ProcessingTime')
        >>> config.get_cleanup_strategies().in_full_snapshot()
        True
        """
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> UpdateType:
        """Return what a value's life begins anew with."""
        return self.update_type

    def get_state_visibility(self) -> StateVisibility:
        """Return whether a value is seen between its end and its cleaning."""
        return self.state_visibility

    def get_ttl(self) -> Time | Duration:
        """Return how long a value lives."""
        return self.ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """Return the clock that counts."""
        return self.ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether values expire at all."""
        return self.update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> TtlCleanup:
        """Return when expired values go, besides when they are read."""
        return self.cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig({self.ttl}, {self.update_type}, {self.state_visibility}, {self.ttl_time_characteristic})"
        )


class StateTtlConfigBuilder:
    """Changes one thing with each call, and returns itself; `build` gives what it has come to.

    Parameters
    ----------
    ttl : Time or Duration
    """

    def __init__(self, ttl: Time | Duration) -> None:
        self._chosen: dict[str, Any] = {
            "update_type": StateTtlConfig.UpdateType.OnCreateAndWrite,
            "state_visibility": StateTtlConfig.StateVisibility.NeverReturnExpired,
            "ttl_time_characteristic": StateTtlConfig.TtlTimeCharacteristic.ProcessingTime,
            "ttl": ttl,  # looked at by `build`: set_ttl may still change it
        }
        self._cleanup: dict[TtlCleanup.Strategies, object] = {}
        self._cleans_in_background = True

    def _choose(self, **chosen: object) -> StateTtlConfigBuilder:
        self._chosen |= chosen
        return self

    def _clean_up(self, way: TtlCleanup.Strategies, how: object) -> StateTtlConfigBuilder:
        self._cleanup[way] = how
        return self

    def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfigBuilder:
        """Choose what a value's life begins anew with."""
        return self._choose(update_type=update_type)

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Let it begin anew with each write, which is the default."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Let it begin anew with each read, too."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfigBuilder:
        """Choose whether a value is seen between its end and its cleaning."""
        return self._choose(state_visibility=state_visibility)

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """Let expired values be seen until they are cleaned up."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """Let no expired value be seen, which is the default."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(
        self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
    ) -> StateTtlConfigBuilder:
        """Choose the clock; there is one."""
        return self._choose(ttl_time_characteristic=ttl_time_characteristic)

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Measure lives by processing time, which is the default."""
        return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> StateTtlConfigBuilder:
        """Leave expired values out of snapshots."""
        return self._clean_up(TtlCleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT, TtlCleanup.EMPTY_STRATEGY)

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> StateTtlConfigBuilder:
        """Look at `cleanup_size` entries with each access to the state, or with each record.

        Raises
        ------
        ValueError
            `cleanup_size` is negative.
        """
        how = IncrementalCleanup(cleanup_size, run_cleanup_for_every_record)
        return self._clean_up(TtlCleanup.Strategies.INCREMENTAL_CLEANUP, how)

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> StateTtlConfigBuilder:
        """Take PyFlink's settings, which change nothing: our RocksDB drops nothing while it compacts."""
        how = CompactionCleanup(query_time_after_num_entries, periodic_compaction_time)
        return self._clean_up(TtlCleanup.Strategies.ROCKSDB_COMPACTION_FILTER, how)

    def disable_cleanup_in_background(self) -> StateTtlConfigBuilder:
        """Clean up only what is read, and what a chosen strategy finds."""
        self._cleans_in_background = False
        return self

    def set_ttl(self, ttl: Time | Duration) -> StateTtlConfigBuilder:
        """Choose another time to live."""
        return self._choose(ttl=ttl)

    def build(self) -> StateTtlConfig:
        """Return the configuration.

        Raises
        ------
        ValueError
            The time to live is not greater than zero.
        """
        return StateTtlConfig(**self._chosen, cleanup_strategies=TtlCleanup(self._cleanup, self._cleans_in_background))


StateTtlConfig.Builder = StateTtlConfigBuilder
