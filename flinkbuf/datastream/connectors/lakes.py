"""What builders of sinks and sources of tables in lakes have in common."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, TypeVar

from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.streaming.lakes.table_commits import TableSinkOptions
from flinkbuf.streaming.lakes.table_files import TableSourceOptions
from flinkbuf.types.duration import Duration, positive_milliseconds_of
from flinkbuf.types.type_information import RowTypeInfo
from flinkbuf.types.types import as_type

if TYPE_CHECKING:
    from typing_extensions import Self

SinkOptions = TypeVar("SinkOptions", bound=TableSinkOptions)
SourceOptions = TypeVar("SourceOptions", bound=TableSourceOptions)


class TableSinkBuilder(OptionsBuilder[SinkOptions]):
    """What a sink of a table is to do."""

    table_kind: ClassVar[str]

    def set_row_type(self, row_type: object) -> Self:
        """Set what the rows are: of a table that is not there yet, or of records whose type is not declared.

        Parameters
        ----------
        row_type : RowTypeInfo, or anything that `flinkbuf.as_type` reads
            Such as ``"k bigint, day date"``.
        """
        if not isinstance(as_type(row_type), RowTypeInfo):
            raise TypeError(f"{self.table_kind} has rows, got {row_type!r}")
        arrow_schema(row_type)  # raises now if a type has no column
        return self._with(row_type=row_type)


class TableSourceBuilder(OptionsBuilder[SourceOptions]):
    """What a source of a table is to do."""

    def set_columns(self, *columns: str) -> Self:
        """Read these columns only."""
        if not columns or len(set(columns)) < len(columns):
            raise ValueError(f"set_columns() takes names of columns, each once, got {columns!r}")
        return self._with(columns=columns)

    def monitor_continuously(self, discovery_interval: Duration) -> Self:
        """Keep running, and read what is appended later.

        Parameters
        ----------
        discovery_interval : Duration
            How often the table is looked at.
        """
        return self._with(interval_ms=positive_milliseconds_of("discovery_interval", discovery_interval))


def checked_time(timestamp: object) -> datetime:
    """Return a time that has a zone."""
    if not isinstance(timestamp, datetime) or timestamp.tzinfo is None:
        raise ValueError(f"timestamp must be a datetime with a time zone, got {timestamp!r}")
    return timestamp
