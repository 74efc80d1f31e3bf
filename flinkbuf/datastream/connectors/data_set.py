"""Data sets of partition files, which Spark's data source ``flinkbuf`` writes. PyFlink has no such thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkbuf.partition_files.data_set import DATA, PartitionDataSet
from flinkbuf.partition_files.part_reader import Piece, cut_pieces, read_pieces
from flinkbuf.partition_files.schema_text import ddl_of
from flinkbuf.records.arrow_batches import arrow_schema, record_type, records_of
from flinkbuf.streaming.sources.source import EnumeratorContext, ReaderContext, Source, SourceReader, SplitEnumerator
from flinkbuf.streaming.sources.split_reader import BatchReader, QueueEnumerator, SplitReader, rows_behind
from flinkbuf.streaming.sources.wanted_columns import batch_in, wanted_schema
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkbuf.streaming.sources.source import SourceSplit

__all__ = ["DataSetSource"]

_ROWS_OF_RECORDS = 1024  # rows that are decoded at once where records are made of them


@dataclass(frozen=True)
class DataSetSplit:
    """Subpartitions of some files, read behind their first rows."""

    split_id: str
    pieces: tuple[Piece, ...]
    skipped: int = 0


class DataSetSource(Source):
    """Reads a data set of partition files, in the version that is the last one now.

    Where ``as_columns`` follows directly, batches of columns are read, and no row is an object.

    Parameters
    ----------
    path : str
        Of the data set, as Spark's ``df.write.format("flinkbuf").save(path)`` was given it.

    Raises
    ------
    FileNotFoundError
        If there is no data set.
    CorruptDataError
        If what is there cannot be read.

    Examples
    --------
    >>> flights = env.from_source(  # doctest: +SKIP
    ...     DataSetSource("/data/flights"), WatermarkStrategy.no_watermarks(), "flights").as_columns()
    >>> flights.key_by("dest").aggregate(flights=count()).execute_and_collect(limit=3)  # doctest: +SKIP
    """

    def __init__(self, path: str) -> None:
        self._data_set_path = PartitionDataSet(path).path
        manifest = PartitionDataSet(path).manifest()
        self._version = manifest.version
        description = ddl_of(manifest.layout.schema)
        self._stored = arrow_schema(description)
        row_type = record_type(description)
        assert isinstance(row_type, RowTypeInfo), "of columns"
        self._row_type = row_type

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows."""
        return self._row_type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Cut the subpartitions of all files into splits of about one size."""
        manifest = PartitionDataSet(self._data_set_path).manifest(self._version)
        cut = cut_pieces(manifest.files, range(manifest.layout.subpartition_count))
        return QueueEnumerator(context, [DataSetSplit(str(number), pieces) for number, pieces in enumerate(cut, 1)])

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Sequence[SourceSplit]) -> SplitEnumerator:
        """The splits that nobody had."""
        return QueueEnumerator(context, checkpoint)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as records."""
        return DataSetReader(context, self._batches(self._stored, _ROWS_OF_RECORDS), self._row_type)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[DataSetColumnSource, pa.Schema]:
        """Return a source of the same rows as batches of the wanted columns, and their schema."""
        schema = wanted_schema(wanted, self._row_type, self._stored)
        return DataSetColumnSource(self, self._batches(schema, max_rows, max_bytes)), schema

    def _batches(self, schema: pa.Schema, max_rows: int, max_bytes: int = 32 << 20) -> _Batches:
        return _Batches(self._data_set_path, self._stored, schema, max_rows, max_bytes)


class DataSetColumnSource(Source):
    """Reads a data set as batches of columns. Its checkpoints are those of a source of the same rows."""

    def __init__(self, source: DataSetSource, batches: _Batches) -> None:
        self._source = source
        self._batches = batches

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Cut the subpartitions into splits."""
        return self._source.create_enumerator(context)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Sequence[SourceSplit]) -> SplitEnumerator:
        """The splits that nobody had."""
        return self._source.restore_enumerator(context, checkpoint)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as batches."""
        return DataSetColumnReader(context, self._batches)


@dataclass(frozen=True)
class _Batches:
    """Says how splits are read as batches.

    Attributes
    ----------
    path : str
        Of the data set.
    stored, schema : pyarrow.Schema
        What the files have, and what the batches have of it.
    max_rows, max_bytes : int
        Of a batch.
    """

    path: str
    stored: pa.Schema
    schema: pa.Schema
    max_rows: int
    max_bytes: int

    def read(self, split: DataSetSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split that were not read before."""
        directory = PartitionDataSet(self.path).directory(DATA)
        columns = None if self.schema.names == self.stored.names else self.schema.names
        batches = read_pieces(directory, split.pieces, self.stored, self.max_rows, columns, self.max_bytes)
        for batch in rows_behind(batches, split.skipped, self.path):
            yield batch_in(self.path, batch.columns, self.schema)


class DataSetReader(SplitReader):
    """Reads splits of a data set as records."""

    def __init__(self, context: ReaderContext, batches: _Batches, row_type: RowTypeInfo) -> None:
        super().__init__(context)
        self._batches, self._row_type = batches, row_type

    def open_split(self, split: DataSetSplit) -> Iterator[object]:
        """Return the rows of a split."""
        return records_of(self._batches.read(split), self._row_type.codec)

    def split_after(self, split: DataSetSplit, record_count: int) -> DataSetSplit:
        """Return the same split, with more rows to skip."""
        return replace(split, skipped=split.skipped + record_count)


class DataSetColumnReader(BatchReader):
    """Reads splits of a data set as batches."""

    def __init__(self, context: ReaderContext, batches: _Batches) -> None:
        super().__init__(context)
        self._batches = batches

    def read_batches(self, split: DataSetSplit) -> Iterator[pa.RecordBatch]:
        """Return the rows of a split."""
        return self._batches.read(split)

    def split_behind(self, split: DataSetSplit, row_count: int) -> DataSetSplit:
        """Return the same split, with more rows to skip."""
        return replace(split, skipped=split.skipped + row_count)
