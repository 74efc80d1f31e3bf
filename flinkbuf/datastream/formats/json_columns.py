"""JSON messages as batches of columns: pyarrow reads many at once, and no object is made for a message.

What pyarrow and Python's json may read differently is read by the latter, message by message, as for records: so rows
and errors are those of the reading by records, whatever the messages hold; only the speed differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf.records.arrow_batches import batch_builder
from flinkbuf.streaming.sources.wanted_columns import MessageColumns, batch_in
from flinkbuf.types.type_information import RowTypeInfo

if TYPE_CHECKING:
    import pyarrow as pa

# Kinds of which pyarrow takes the values that Python takes as they are, and refuses others.
ALIKE = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING")
_BLANKS = b" \t\r\n"
_INTEGER_ZERO = re.compile(rb"-0[^.0-9eE]")  # that is 0.0 to Python, and -0.0 to pyarrow
_ALL = 2**31 - 1  # rows, and bytes: a batch is not cut


@dataclass(frozen=True)
class JsonMessages(MessageColumns):
    """Reads objects, of which the fields are columns.

    Parameters
    ----------
    schema : pyarrow.Schema
        What is wanted.
    row_type : RowTypeInfo
        Of the rows.
    found : pyarrow.Schema
        The same in Arrow.
    deserialize : callable
        Makes a row of a message, as for records; None: there is none in it.
    """

    schema: pa.Schema
    row_type: RowTypeInfo
    found: pa.Schema
    deserialize: Callable[[bytes], object]

    def read(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, list[int] | None]:
        """Return the rows of messages, and which have one; None: each has."""
        batch = self._by_arrow(messages)
        return self._by_rows(messages) if batch is None else (batch, None)

    def _by_arrow(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the rows; None: they cannot be read so."""
        import pyarrow as pa
        from pyarrow import json as arrow_json

        texts = [message.strip(_BLANKS) for message in messages]
        # Between such texts nothing can be but the end of one object and the beginning of another; so if there are as
        # many objects as messages, each message is one.
        if not all(text[:1] == b"{" and text[-1:] == b"}" for text in texts):
            return None
        data = b"\n".join(texts)
        fields = [self.found.field(name) for name in self.schema.names]
        if not _is_text(data) or (any(map(_is_float, fields)) and _INTEGER_ZERO.search(data)):
            return None
        types = pa.schema([field.with_type(pa.float64()) if _is_float(field) else field for field in fields])
        try:
            table = arrow_json.read_json(
                pa.BufferReader(data),
                arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                arrow_json.ParseOptions(types, newlines_in_values=True, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        if len(table) != len(messages):
            return None
        # A number is rounded once to double and then to float, as Python does it.
        columns = [table.column(each.name).combine_chunks().cast(each.type, safe=False) for each in fields]
        return batch_in(_PLACE, columns, self.schema)

    def _by_rows(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, list[int]]:
        """Return the rows as they are read for records."""
        import pyarrow as pa

        codec = self.row_type.codec
        gathered = RecordsToBatch(codec, batch_builder(codec, self.found, _ALL, _ALL))
        kept = []
        for index, message in enumerate(messages):
            row = self.deserialize(message)
            if row is not None:
                gathered.add_record(row)
                kept.append(index)
        batch = gathered.finish() if kept else pa.RecordBatch.from_pylist([], self.found)
        return batch_in(_PLACE, [batch.column(name) for name in self.schema.names], self.schema), kept


_PLACE = "a JSON message"


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_float(field: pa.Field) -> bool:
    import pyarrow as pa

    return pa.types.is_floating(field.type)
