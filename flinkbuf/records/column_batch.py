"""The element of a column stream: some rows as Arrow columns, each row with its timestamp; and a page, its bytes.

A chain passes it by reference, and nobody changes it: Arrow arrays do not change. Watermarks and barriers stand between
elements. Between tasks an element is a page, which says by itself what its columns are, so that a program may give
batches of any schema: a head, the schema, the timestamps, and the batch in Arrow's IPC format, each on 8 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.value.own_value import declare_fixed
from flinkbuf.errors import CorruptDataError
from flinkbuf.types.type_information import PrimitiveArrayTypeInfo
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_HEAD = struct.Struct("<BBHIQ")  # version, whether there are timestamps, 0, bytes of the schema, rows
_VERSION = 1
_ALIGNMENT = 8
_SCHEMAS_KEPT = 64
_SMALL = 1 << 12  # bytes: smaller pieces of a page are put together


@dataclass(frozen=True, eq=False)
class ColumnBatch:
    """Rows of a column stream.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
    timestamps : numpy.ndarray of int64, optional
        Of the rows, in milliseconds; `NO_TIMESTAMP` where a row has none. None: no row has one.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> rows = ColumnBatch(pa.record_batch({"a": [1, 2, 3]}), np.array([30, 10, 20]))
    >>> len(rows), rows.latest, rows.take(np.array([1])).batch.to_pylist()
    (3, 30, [{'a': 2}])
    """

    batch: Any
    timestamps: Any = None

    def __len__(self) -> int:
        count: int = self.batch.num_rows
        return count

    @property
    def latest(self) -> int:
        """Return the latest timestamp of a row, or `NO_TIMESTAMP`."""
        if self.timestamps is None:
            return NO_TIMESTAMP
        found: int | None = self.__dict__.get("_latest")
        if found is None:
            found = self.__dict__["_latest"] = int(self.timestamps.max()) if len(self) else NO_TIMESTAMP
        return found

    def take(self, rows: np.ndarray) -> ColumnBatch:
        """Return some of the rows, in any order."""
        return ColumnBatch(self.batch.take(rows), None if self.timestamps is None else self.timestamps[rows])

    def filter(self, mask: Any) -> ColumnBatch:
        """Return the rows for which an Arrow array of booleans is true; null counts as false."""
        return self if mask.true_count == len(self) else FilteredBatch(self, mask)

    def slice(self, start: int, end: int) -> ColumnBatch:
        """Return the rows from `start` on and before `end`, over the same memory."""
        times = None if self.timestamps is None else self.timestamps[start:end]
        return ColumnBatch(self.batch.slice(start, end - start), times)

    def arranged(self, arrange: Callable[[pa.RecordBatch], pa.RecordBatch]) -> ColumnBatch:
        """Return the same rows with some of their columns, in any order and under any names, as a function says.

        It may be called with rows that were filtered out, too: it looks at no value.
        """
        return self.with_batch(arrange(self.batch))

    def with_batch(self, batch: pa.RecordBatch) -> ColumnBatch:
        """Return the same rows with other columns."""
        made = ColumnBatch(batch, self.timestamps)
        if "_latest" in self.__dict__:
            made.__dict__["_latest"] = self.__dict__["_latest"]
        return made


class _Copied:
    """An attribute of a `FilteredBatch` that nobody has looked at so far."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, element: FilteredBatch | None, owner: type | None = None) -> Any:
        return self if element is None else element._copy(self._name)


class FilteredBatch(ColumnBatch):
    """Some of the rows of an element, which are copied when somebody looks at them: the columns that are left then.

    Parameters
    ----------
    whole : ColumnBatch
    mask : pyarrow.BooleanArray
        Which of its rows these are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = ColumnBatch(pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    >>> few = rows.filter(pa.array([True, None, True])).arranged(lambda batch: batch.select(["a"]))
    >>> len(few), few.batch.to_pydict()
    (2, {'a': [1, 3]})
    """

    batch: Any = _Copied()
    timestamps: Any = _Copied()

    def __init__(self, whole: ColumnBatch, mask: Any) -> None:
        self.__dict__["_filtered"] = whole, mask  # None: the rows were copied
        self.__dict__["_count"] = mask.true_count

    def __len__(self) -> int:
        count: int = self.__dict__["_count"]
        return count

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnBatch, (self.batch, self.timestamps)

    def arranged(self, arrange: Callable[[pa.RecordBatch], pa.RecordBatch]) -> ColumnBatch:
        """Return the same rows with some of their columns: see `ColumnBatch.arranged`."""
        filtered = self.__dict__["_filtered"]
        if filtered is None:
            return super().arranged(arrange)
        made = FilteredBatch(filtered[0].arranged(arrange), filtered[1])
        known = ("timestamps", "_latest")
        made.__dict__.update((name, self.__dict__[name]) for name in known if name in self.__dict__)
        return made

    def _copy(self, name: str) -> Any:
        """Copy the timestamps, or the columns, behind which what they were part of is let go."""
        import pyarrow as pa

        whole, mask = self.__dict__["_filtered"]
        if "timestamps" not in self.__dict__:
            times = whole.timestamps
            self.__dict__["timestamps"] = None if times is None else pa.array(times).filter(mask).to_numpy()
        if name == "batch":
            self.__dict__["batch"] = whole.batch.filter(mask)
            self.__dict__["_filtered"] = None
        return self.__dict__[name]


class PageWriter:
    """Makes pages of elements; one for each writer, which knows the bytes of the latest schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> page = PageWriter().write(ColumnBatch(pa.record_batch({"a": [1, 2]})))
    >>> PageReader().read(page).batch.to_pydict()
    {'a': [1, 2]}
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._schema_bytes = b""
        self._body: _BatchPieces | None = None  # of the latest schema

    def write(self, element: ColumnBatch) -> bytes:
        """Return the bytes that another task makes the same element of."""
        batch = without_dictionaries(element.batch)
        return b"".join((*self._begin(batch, element.timestamps), batch.serialize()))

    def write_pieces(self, element: ColumnBatch) -> list[bytes | memoryview]:
        """Return the same bytes in pieces, of which large ones are the memory of the columns: nobody may change it."""
        batch = without_dictionaries(element.batch)
        begin = b"".join(self._begin(batch, element.timestamps))
        if self._body is None:
            self._body = _BatchPieces(batch.schema)
        return self._body.of(batch, begin)

    def _begin(self, batch: pa.RecordBatch, timestamps: np.ndarray | None) -> tuple[bytes, bytes, bytes]:
        """Return what stands before the columns."""
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._schema, self._body = batch.schema, None
            data = batch.schema.serialize().to_pybytes()
            self._schema_bytes = data + bytes(-len(data) % _ALIGNMENT)
        head = _HEAD.pack(_VERSION, timestamps is not None, 0, len(self._schema_bytes), batch.num_rows)
        times = b"" if timestamps is None else timestamps.astype("<i8", copy=False).tobytes()
        return head, self._schema_bytes, times


class _BatchPieces:
    """Makes Arrow's messages of batches of one schema, in pieces."""

    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._pieces = _Pieces()  # which does not know the writer: neither would ever go away
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._pieces, "w"), schema)
        self._writer.write_batch(pa.RecordBatch.from_pylist([], schema))  # behind the schema, which is written first
        self._pieces.take()

    def of(self, batch: pa.RecordBatch, begin: bytes) -> list[bytes | memoryview]:
        """Return the message of a batch behind other bytes."""
        self._pieces.write(begin)
        self._writer.write_batch(batch)
        return self._pieces.take()


class _Pieces:
    """A file that keeps what is written as it comes: Arrow gives it the buffers of columns themselves."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self._small: list[memoryview] = []  # to be one piece

    def write(self, data: bytes | pa.Buffer) -> None:
        """Take bytes."""
        piece = memoryview(data)
        if piece.nbytes < _SMALL:
            self._small.append(piece)
        else:
            self._end_small()
            self._pieces.append(piece)

    def take(self) -> list[bytes | memoryview]:
        """Return what was written since."""
        self._end_small()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _end_small(self) -> None:
        if self._small:
            self._pieces.append(b"".join(self._small))
            self._small = []


class PageReader:
    """Makes elements of pages; one for each reader, which knows the schemas that it has seen.

    Attributes
    ----------
    row_count : int
        Of the elements that `element_of` gave.
    """

    def __init__(self) -> None:
        self.row_count = 0
        self._schemas: dict[bytes, pa.Schema] = {}

    def element_of(self, value: ColumnBatch | bytes) -> ColumnBatch:
        """Return an element that came by reference as it is, and the one of a page."""
        element = value if isinstance(value, ColumnBatch) else self.read(value)
        self.row_count += len(element)  # which copies no rows that were filtered
        return element

    def read(self, page: bytes) -> ColumnBatch:
        """Return the element of a page, over the same memory.

        Raises
        ------
        CorruptDataError
            If the bytes are not those of a page.
        """
        import numpy as np
        import pyarrow as pa

        if len(page) < _HEAD.size:
            raise CorruptDataError(f"a page of columns has {len(page)} bytes, and its head alone {_HEAD.size}")
        version, has_timestamps, _, schema_size, count = _HEAD.unpack_from(page)
        if version != _VERSION:
            raise CorruptDataError(f"a page of columns of version {version}; this flinkbuf reads version {_VERSION}")
        timestamps_at = _HEAD.size + schema_size
        batch_at = timestamps_at + (8 * count if has_timestamps else 0)
        if batch_at > len(page):
            raise CorruptDataError(f"a page of {count} rows ends after {len(page)} bytes, within its head")
        try:
            schema = self._schema(bytes(memoryview(page)[_HEAD.size : timestamps_at]))
            batch = pa.ipc.read_record_batch(pa.py_buffer(memoryview(page)[batch_at:]), schema)
            batch.validate(full=True)
            for column in batch.columns:
                _check_empty_lists(column)
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise CorruptDataError(f"a page of columns cannot be read: {error}") from None
        if batch.num_rows != count:
            raise CorruptDataError(f"a page of {count} rows has columns of {batch.num_rows}")
        if not has_timestamps:
            return ColumnBatch(batch)
        return ColumnBatch(batch, np.frombuffer(page, "<i8", count, timestamps_at))

    def _schema(self, data: bytes) -> pa.Schema:
        import pyarrow as pa

        known = self._schemas.get(data)
        if known is None:
            if len(self._schemas) >= _SCHEMAS_KEPT:
                self._schemas.clear()
            known = pa.ipc.read_schema(pa.py_buffer(data))
            known.names  # noqa: B018 - an error if one is no text
            self._schemas[data] = known
        return known


class ColumnTypeInfo(PrimitiveArrayTypeInfo):
    """The type of what tasks of a column stream send each other: pages, as the bytes that they are."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Types.BYTE())

    def __repr__(self) -> str:
        return "COLUMNS"

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return ColumnTypeInfo, ()


COLUMNS = ColumnTypeInfo()


def without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with plain columns in place of those that are indices into a dictionary, or have such parts."""
    import pyarrow as pa

    is_dictionary = pa.types.is_dictionary
    if not _have_dictionaries(is_dictionary, batch.schema.types):
        return batch
    columns = [
        column.dictionary_decode()
        if is_dictionary(column.type)
        else column.cast(_plain_type(column.type))
        if _have_dictionaries(is_dictionary, [column.type])
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, batch.schema.names)


def _have_dictionaries(is_dictionary: Callable[[pa.DataType], bool], types: list[pa.DataType]) -> bool:
    """Return whether one of some types is, or has within it, a dictionary."""
    for of in types:
        if is_dictionary(of):
            return True
        count = of.num_fields
        if count and _have_dictionaries(is_dictionary, [of.field(place).type for place in range(count)]):
            return True
    return False


def _plain_type(of: pa.DataType) -> pa.DataType:
    """Return a type with the types of values in place of dictionaries, in lists, maps and structs, too."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(of):
        return of.value_type
    if types.is_struct(of):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in of])
    if types.is_map(of):
        parts = (field.with_type(_plain_type(field.type)) for field in (of.key_field, of.item_field))
        return pa.map_(*parts, keys_sorted=of.keys_sorted)
    if types.is_fixed_size_list(of):
        return pa.list_(of.value_field.with_type(_plain_type(of.value_type)), of.list_size)
    if types.is_list(of) or types.is_large_list(of):
        list_of = pa.list_ if types.is_list(of) else pa.large_list
        return list_of(of.value_field.with_type(_plain_type(of.value_type)))
    return of


declare_fixed(ColumnBatch, FilteredBatch)


def _check_empty_lists(column: pa.Array) -> None:
    """Raise ValueError if a list of no rows begins behind its elements: Arrow looks at offsets of rows only.

    Its functions take the first offset as it is all the same, and end the process.
    """
    from pyarrow import types

    of = column.type
    if not types.is_nested(of) or types.is_union(of):
        return
    if types.is_struct(of):
        parts = [column.field(number) for number in range(of.num_fields)]
    else:
        parts = [column.keys, column.items] if types.is_map(of) else [column.values]
    # what was read from a page is no slice of something, so that its offsets begin where their memory does
    has_offsets = types.is_list(of) or types.is_large_list(of) or types.is_map(of)
    if has_offsets and not len(column):
        offsets = column.buffers()[1]
        width = 8 if types.is_large_list(of) else 4
        first = int.from_bytes(memoryview(offsets)[:width], "little", signed=True) if offsets else 0
        if not 0 <= first <= len(parts[0]):
            raise ValueError(f"lists of no rows begin at element {first} of {len(parts[0])}")
    for part in parts:
        _check_empty_lists(part)
