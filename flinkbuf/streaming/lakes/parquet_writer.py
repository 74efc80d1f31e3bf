"""Batches of columns into a Parquet file: no object is made for a row."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from flinkbuf.streaming.columns.column_functions import column_as

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet

ROWS_PER_GROUP = 65_536  # rows that are kept until they are written, as one row group
_BYTES_PER_GROUP = 64 << 20  # of which a row group has not many more


class ParquetColumnWriter:
    """Writes the batches of one file, put together to row groups."""

    def __init__(self, schema: pa.Schema, file: IO[bytes]) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = schema
        self._metadata: list[Any] = []  # one, when the file is ended
        self._writer = ParquetWriter(file, schema, metadata_collector=self._metadata)
        self._kept: list[pa.RecordBatch] = []
        self._row_count = self._byte_count = 0  # of these

    @property
    def metadata(self) -> pyarrow.parquet.FileMetaData:
        """Return what the footer of the file says, once it is ended."""
        return self._metadata[0]

    def add_element(self, element: pa.RecordBatch) -> None:
        """Keep one batch; a full row group is written."""
        batch = batch_as(element, self._schema)
        self._kept.append(batch)
        self._row_count += batch.num_rows
        self._byte_count += batch.nbytes
        if self._row_count >= ROWS_PER_GROUP or self._byte_count >= _BYTES_PER_GROUP:
            self._write_groups()

    def flush(self) -> None:
        """Nothing: a row group that is begun cannot be read."""

    def finish(self) -> None:
        """Write the rest and the footer."""
        self._write_groups()
        self._writer.close()

    def abandon(self) -> None:
        """Let pyarrow end the file now; it would try to when the file is closed already."""
        self._writer.close()

    def _write_groups(self) -> None:
        import pyarrow as pa

        kept, self._kept, self._row_count, self._byte_count = self._kept, [], 0, 0
        if kept:
            self._writer.write_table(pa.Table.from_batches(kept, self._schema), 2 * ROWS_PER_GROUP)


def batch_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a stream as the files of a sink have it, whose columns it has in any order.

    Raises
    ------
    ValueError, TypeError
        If it has other columns, or values that do not fit.
    """
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    found = batch.schema.names
    if sorted(found) != sorted(schema.names):
        raise ValueError(
            f"the sink writes the columns {', '.join(schema.names)}, and the column stream has "
            f"{', '.join(found) or 'none'}: say select(...) before sink_to()"
        )
    columns = [
        column_as(batch.column(each.name), each.type, each.name, f"is {each.type} in the files") for each in schema
    ]
    return pa.record_batch(columns, schema=schema)
