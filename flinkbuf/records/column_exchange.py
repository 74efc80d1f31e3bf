"""How the rows of a column stream get to the tasks that read it: whole batches in turn, or split by key.

A batch that is split has its rows gathered by channel, in their order, and each channel gets one page. Rows go where
records of the same key go: the key group of a row is that of a record with these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flinkbuf._core.flow.batch_writer import RowChunks, channels_of_rows
from flinkbuf._core.record.channel_selector import ChannelSelector
from flinkbuf._core.sort.row_order import RowOrder
from flinkbuf.records.arrow_batches import arrow_batches, record_type
from flinkbuf.records.column_batch import ColumnBatch, PageWriter, without_dictionaries
from flinkbuf.records.partitioner import Partitioner, by_key
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True)
class ColumnKeyPartitioner(Partitioner):
    """Rows with equal values in these columns go to one channel; without columns all rows do.

    Flink: KeyGroupStreamPartitioner, GlobalPartitioner.
    """

    names: tuple[str, ...]
    max_parallelism: int
    gathers: bool = False  # small elements may go on as one
    kind: ClassVar[str] = "columns by key"

    def selector(
        self, record_type: TypeInformation, channel_count: int, subtask_index: int = 0, seed: int | None = None
    ) -> ChannelSelector:
        """Return what chooses for pages that no channel is given with: there is none."""
        return ChannelSelector("global", channel_count)


class RowKeys:
    """Finds the key groups, or the channels, of rows.

    Parameters
    ----------
    names : tuple of str
        Of the columns that are the key.
    max_parallelism : int
        How many key groups there are.
    channel_count : int, optional
        Among so many subtasks; None: the key groups themselves.

    Examples
    --------
    >>> import pyarrow as pa
    >>> RowKeys(("a",), max_parallelism=128).of(pa.record_batch({"a": [1, 2, 1], "b": [7, 8, 9]}))
    array([ 86, 127,  86], dtype=uint32)
    """

    def __init__(self, names: tuple[str, ...], max_parallelism: int, channel_count: int | None = None) -> None:
        self.names = names
        self._max_parallelism = max_parallelism
        self._channel_count = max_parallelism if channel_count is None else channel_count
        self._schema: pa.Schema | None = None
        self._types: dict[str, pa.DataType] = {}  # of the columns that had one
        self._chunks: RowChunks | None = None

    def of(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the number of each row: an array of uint32.

        Raises
        ------
        ValueError
            If a key of one column is null.
        KeyError
            If the batch lacks a column.
        TypeError
            If a column had another type in a batch before, with which rows of the same key go elsewhere.
        """
        import numpy as np
        import pyarrow as pa

        keys = key_columns(batch, self.names)
        if self._chunks is None or keys.schema != self._schema:
            chunks = self._chunks_for(keys.schema)
            for field in keys.schema:
                before = self._types.get(field.name, field.type)
                check_goes_alike(field.name, field.type, before, f"was {before} before")
                if not pa.types.is_null(field.type):
                    self._types[field.name] = field.type
            self._schema, self._chunks = keys.schema, chunks
        if self._channel_count == 1 and (len(self.names) > 1 or not keys.column(0).null_count):
            return np.zeros(keys.num_rows, np.uint32)
        (each,) = arrow_batches(keys)
        return channels_of_rows(self._chunks, each)

    def _chunks_for(self, schema: pa.Schema) -> RowChunks:
        record = record_type(schema)
        key: object = self.names[0] if len(self.names) == 1 else self.names
        partitioner = by_key(key, max_parallelism=self._max_parallelism)
        return RowChunks(record.codec, partitioner.selector(record, self._channel_count))


def key_columns(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    """Return the columns of the key.

    Raises
    ------
    KeyError
        If one is missing.
    """
    missing = [name for name in names if batch.schema.get_field_index(name) < 0]
    if missing:
        raise KeyError(
            f"the batch has no column {missing[0]!r}, which is of the key; there are "
            f"{', '.join(batch.schema.names) or 'none'}"
        )
    return without_dictionaries(batch.select(list(names)))


def go_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether rows go to the same subtask if their keys are equal but for these types.

    Examples
    --------
    >>> import pyarrow as pa
    >>> go_alike(pa.string(), pa.large_string()), go_alike(pa.int32(), pa.int64())  # -1 as an int is not -1 as a bigint
    (True, False)
    """
    import pyarrow as pa

    if one.equals(other) or pa.types.is_null(one) or pa.types.is_null(other):  # a null is one of any type
        return True
    if pa.types.is_duration(one) or pa.types.is_duration(other):
        return False
    kinds = [record_type(pa.schema([("key", each)])) for each in (one, other)]
    return kinds[0] == kinds[1] and getattr(one, "scale", 0) == getattr(other, "scale", 0)


def check_goes_alike(name: str, now: pa.DataType, before: pa.DataType, said: str, when: str = "now") -> None:
    """Raise TypeError if rows whose keys are equal but for these types of a column go to different subtasks.

    Parameters
    ----------
    name : str
        Of the column.
    now : pyarrow.DataType
        That it has.
    before : pyarrow.DataType
        That rows have which may be equal.
    said : str
        Where they have it: "was int64 before".
    when : str
        Where it has its own.
    """
    if not go_alike(now, before):
        raise TypeError(
            f"column {name!r} {said} and is {now} {when}, and it is of the key: rows with equal values of the two "
            "types go to different subtasks; cast the column to one type before key_by(), with with_columns()"
        )


def pages_for(partitioner: object, channel_count: int) -> Callable[[ColumnBatch], Iterator[tuple[int | None, bytes]]]:
    """Return what makes pages of elements, each with the channel that it goes to; None: the partitioner chooses."""
    writer = PageWriter()
    if not isinstance(partitioner, ColumnKeyPartitioner) or not partitioner.names:
        return lambda element: iter(((None, writer.write(element)),))
    keys = RowKeys(partitioner.names, partitioner.max_parallelism, channel_count)

    def split(element: ColumnBatch) -> Iterator[tuple[int | None, bytes]]:
        for channel, part in parts_by_number(element, keys.of(element.batch), channel_count):
            yield channel, writer.write(part)

    return split


def parts_by_number(element: ColumnBatch, numbers: np.ndarray, count: int) -> Iterator[tuple[int, ColumnBatch]]:
    """Yield each number below `count` that a row has, with the rows that have it, in their order."""
    order, parts = _ordered(numbers, count)
    gathered = element if order is None else in_order(element, order)
    for number, start, end in parts:
        yield number, element if order is None else gathered.slice(start, end)


def rows_by_number(numbers: np.ndarray, count: int) -> tuple[np.ndarray | None, list[tuple[int, int, int]]]:
    """Return an order of rows by their numbers below `count`, and of each number where its rows begin and end in it.

    The order is None where all rows have one number.

    Examples
    --------
    >>> import numpy as np
    >>> order, parts = rows_by_number(np.array([2, 0, 2]), 3)
    >>> order.tolist(), parts
    ([1, 0, 2], [(0, 0, 1), (2, 1, 3)])
    """
    order, parts = _ordered(numbers, count)
    return None if order is None else order.rows(), parts


def _ordered(numbers: np.ndarray, count: int) -> tuple[RowOrder | None, list[tuple[int, int, int]]]:
    import numpy as np

    if not len(numbers):
        return None, []
    if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
        return None, [(int(numbers[0]), 0, len(numbers))]
    order = RowOrder(numbers.astype(np.uint32, copy=False), count)
    found = np.flatnonzero(np.diff(order.starts))
    return order, list(zip(found.tolist(), order.starts[found].tolist(), order.starts[found + 1].tolist(), strict=True))


def in_order(element: ColumnBatch, order: RowOrder) -> ColumnBatch:
    """Return the rows in an order."""
    import numpy as np
    import pyarrow as pa

    columns: list[object] = []
    for column in element.batch.columns:
        width = _bytes_of_a_value(column.type)
        if width and not column.null_count:
            moved = pa.allocate_buffer(len(column) * width)
            order.move(column.buffers()[1], moved, width, column.offset)
            columns.append(pa.Array.from_buffers(column.type, len(column), [None, moved], 0))
        else:
            columns.append(None)
    if any(column is None for column in columns):
        rows = pa.array(order.rows())
        columns = [
            column.take(rows) if moved is None else moved
            for column, moved in zip(element.batch.columns, columns, strict=True)
        ]
    times = None
    if element.timestamps is not None:
        times = np.empty(len(element), np.int64)
        order.move(np.ascontiguousarray(element.timestamps, np.int64), times, times.itemsize)
    return ColumnBatch(pa.record_batch(columns, schema=element.batch.schema), times)


def _bytes_of_a_value(type_: pa.DataType) -> int:
    """Return the width of a type whose values lie side by side in one buffer; 0: they do not, or are bits."""
    import pyarrow as pa

    if pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_fixed_size_binary(type_):
        bits: int = type_.bit_width
        return bits // 8 if bits % 8 == 0 else 0
    return 0
