"""JSON messages as batches of columns: pyarrow reads many at once, and no object is made for a message.

What pyarrow and Python's json may read differently is read by the latter, message by message, as for records: so rows
and errors are those of the reading by records, whatever the messages hold; only the speed differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.streaming.sources.wanted_columns import MessageColumns, MessageRows, batch_in, is_text

if TYPE_CHECKING:
    import pyarrow as pa

# Kinds of which pyarrow takes the values that Python takes as they are, and refuses others.
ALIKE = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING")
_BLANKS = b" \t\r\n"
_INTEGER_ZERO = re.compile(rb"-0[^.0-9eE]")  # that is 0.0 to Python, and -0.0 to pyarrow


@dataclass(frozen=True)
class JsonMessages(MessageColumns):
    """Reads objects, of which the fields are columns.

    Parameters
    ----------
    schema : pyarrow.Schema
        What is wanted.
    rows : MessageRows
        How they are read one by one.
    """

    schema: pa.Schema
    rows: MessageRows

    def read(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, list[int] | None]:
        """Return the rows of messages, and which have one; None: each has."""
        batch = self._by_arrow(messages)
        return self.rows.read(messages, self.schema) if batch is None else (batch, None)

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
        fields = [self.rows.found.field(name) for name in self.schema.names]
        if not is_text(data) or (any(map(_is_float, fields)) and _INTEGER_ZERO.search(data)):
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
        return batch_in(PLACE, columns, self.schema)


PLACE = "a JSON message"


def _is_float(field: pa.Field) -> bool:
    import pyarrow as pa

    return pa.types.is_floating(field.type)
