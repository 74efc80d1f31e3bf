"""The first rows of each group by an order: an aggregate whose state and result are rows.

Which rows these are is known in C, by slot and number; the rows lie in a `RowStore`. A state is a list of rows, in the
order in which they came, so that windows, running results and snapshots take them as they take every aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flinkbuf._core.columns.slot_aggregates import make_aggregate
from flinkbuf._core.sort.slot_ranks import SlotRanks
from flinkbuf.records.column_batch import ColumnBatch, without_dictionaries
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_functions import check_differ
from flinkbuf.streaming.columns.key_table import places_within
from flinkbuf.streaming.columns.row_store import RowStore

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


_MIN_LOST: Final = 4096  # rows that fell out: fewer are not worth a look for them
MAX_ORDERS: Final = 10  # columns that rows are ordered by, each of up to three words in C


@dataclass(frozen=True)
class RankedRows(Aggregate):
    """The first rows of each group, as a list of them.

    Attributes
    ----------
    limit : int
        How many of a group.
    by : tuple of (column, bool)
        What the rows are ordered by, and whether the greatest comes first; null is less than every value.
    is_newest_first : bool
        Whether the later one of two equal rows is the first.
    rank : str, optional
        The column with the rank of a row, from 1 on, where rows are given; None: there is none.
    """

    kind: str = field(init=False, default="rows")
    columns: tuple[object, ...] = field(init=False, default=())
    limit: int = 1
    by: tuple[tuple[object, bool], ...] = ()
    is_newest_first: bool = False
    rank: str | None = None

    def __post_init__(self) -> None:
        computed = (column for column, _ in self.by if not isinstance(column, str))
        object.__setattr__(self, "columns", (whole_rows, *computed))
        super().__post_init__()

    @property
    def text(self) -> str:
        """Return what a snapshot says of it: ``top(3 by price descending)``."""
        orders = (
            f"{column if isinstance(column, str) else '_'}{' descending' if is_descending else ''}"
            for column, is_descending in self.by
        )
        by = f" by {', '.join(orders)}" if self.by else ""
        return f"top({self.limit}{by}{', the newest first' if self.is_newest_first else ''})"

    def accumulator(self, name: str, types: tuple[pa.DataType, ...]) -> RankStates:
        """Return what keeps the rows of groups.

        Raises
        ------
        KeyError, TypeError
            If there is no column that they are ordered by, or one without an order.
        """
        return RankStates(self, types)


def whole_rows(batch: pa.RecordBatch) -> pa.Array:
    """Return the rows of a batch as one column."""
    import pyarrow as pa

    batch = without_dictionaries(batch)
    return pa.StructArray.from_arrays(batch.columns, names=batch.schema.names)


def spread_rows(element: ColumnBatch, place: int, ranked: RankedRows) -> ColumnBatch:
    """Return a row for each one in the lists of a column: its columns, those behind the lists, and its rank.

    Parameters
    ----------
    element : ColumnBatch
    place : int
        Of the column; those before it, which are the key, are columns of the rows, too.
    ranked : RankedRows
        Whose results the lists are.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    batch = element.batch
    lists = batch.column(place)
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    parents = np.repeat(np.arange(len(counts)), counts)
    behind = batch.select(list(range(place + 1, batch.num_columns))).take(parents)
    columns = [*lists.flatten().flatten(), *behind.columns]
    names = [*(each.name for each in lists.type.value_type), *behind.schema.names]
    if ranked.rank is not None:
        columns.append(pa.array(places_within(counts) + 1))
        names.append(ranked.rank)
    check_differ(names, "the rows of a window")
    times = None if element.timestamps is None else element.timestamps[parents]
    return ColumnBatch(pa.record_batch(columns, names), times)


class RankStates:
    """The first rows of groups, by slot: what a `SlotAggregate` is to other aggregates.

    Parameters
    ----------
    ranked : RankedRows
    types : sequence of pyarrow.DataType
        Of the rows, a struct, and of what they are ordered by and is no column of theirs.
    """

    def __init__(self, ranked: RankedRows, types: Sequence[pa.DataType]) -> None:
        import pyarrow as pa

        row, *computed = types
        _check_kept(row)
        self.row_schema = pa.schema(list(row))
        fields = [*row, *(pa.field(f"by {place}", type_) for place, type_ in enumerate(computed))]
        self._schema = pa.schema([each.remove_metadata() for each in fields])
        self._orders = _orders_of(ranked.by, row, self._schema)
        self.result_type = pa.list_(row)
        self.state_types = (pa.list_(pa.struct(list(self._schema))),)
        self._ranks: SlotRanks = _ranks_for(ranked, self._orders)
        self._rows = RowStore(self._schema)
        self._lost = 0  # of those, rows that no group has any more

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that rows and ranks have."""
        return self._rows.nbytes + int(self._ranks.nbytes)

    def accumulate(self, slots: np.ndarray, slot_count: int, *columns: pa.Array) -> None:
        """Take rows: as a struct, then what they are ordered by and is no column of theirs."""
        rows, *computed = columns
        self._add(slots, slot_count, [*rows.flatten(), *computed])

    def merge(self, slots: np.ndarray, slot_count: int, *state_columns: pa.Array) -> None:
        """Take lists of rows as `state` gives them: list i into slots[i]."""
        import numpy as np
        import pyarrow.compute as pc

        (lists,) = state_columns
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        self._add(np.repeat(slots, lengths), slot_count, lists.flatten().flatten())

    def state(self, slots: np.ndarray | None = None) -> tuple[pa.Array, ...]:
        """Return the rows of all slots, or of some, as lists in the order in which they came."""
        import numpy as np

        counts, numbers = self._ranks.counts(slots), self._ranks.numbers(slots)
        numbers = numbers[np.lexsort((numbers, np.repeat(np.arange(len(counts)), counts)))]
        return (_lists_of(self._rows.take(numbers), counts, self.state_types[0]),)

    def result(self, slots: np.ndarray | None = None) -> pa.Array:
        """Return the rows of all slots, or of some, as lists, best first."""
        rows = self.rows(self._ranks.numbers(slots))
        return _lists_of(rows, self._ranks.counts(slots), self.result_type)

    def changes(self, by_rank: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the latest rows have changed: ranks, numbers and kinds, as `SlotRanks` says."""
        _, ranks, numbers, kinds = self._ranks.changes(by_rank)
        return ranks, numbers, kinds

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how many rows each slot has, and their numbers, best first, one slot behind the other."""
        return self._ranks.counts(), self._ranks.numbers()

    def rows(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Return the rows with these numbers, as they came."""
        return self._rows.take(numbers).select(list(range(len(self.row_schema))))

    def compact(self) -> None:
        """Forget rows that fell out, once they are most; whoever asked for `changes` has then taken the rows."""
        if self._lost > max(_MIN_LOST, len(self._rows) // 2):
            self._rows.keep(self._ranks.numbers())
            self._lost = 0

    def _add(self, slots: np.ndarray, slot_count: int, columns: list[pa.Array]) -> None:
        import numpy as np
        import pyarrow as pa

        self.compact()
        rows = pa.record_batch(columns, schema=self._schema)
        words = np.empty((len(slots), sum(each.width for each in self._orders)), np.int64)
        borrowed, start = [], 0
        for each in self._orders:
            column = rows.column(each.place)
            borrowed.append(each.write(column, words[:, start : start + each.width]))
            start += each.width
        kept, lost = self._ranks.add(slots.astype(np.uint32, copy=False), slot_count, words, self._rows.next_number)
        self._lost += lost
        self._rows.append(rows.take(kept))  # a copy: whoever gave the arrays may write into their memory again


def _lists_of(rows: pa.RecordBatch, counts: np.ndarray, type_: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    if rows.num_rows >= 2**31:
        raise OverflowError(f"lists have less than 2^31 rows in all, got {rows.num_rows}")
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(type_.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=type_)


def _check_kept(row: pa.StructType) -> None:
    """Raise TypeError if a column is of a type of which Arrow can take no rows."""
    import pyarrow as pa

    for each in row:
        try:
            pa.nulls(1, each.type).take(pa.array([0]))
        except pa.ArrowNotImplementedError:
            raise TypeError(
                f"column {each.name!r}: rows with values of {each.type} cannot be kept; cast views to string or binary "
                "in with_columns()"
            ) from None


def _orders_of(by: tuple[tuple[object, bool], ...], row: pa.StructType, schema: pa.Schema) -> list[_Order]:
    orders, place = [], row.num_fields
    for column, is_descending in by:
        if isinstance(column, str):
            if column not in schema.names[: row.num_fields]:
                raise KeyError(
                    f"rows are ordered by {column!r}, which is no column; there are {', '.join(schema.names)}"
                )
            found = schema.names.index(column)
        else:
            found, place = place, place + 1
        make_aggregate("max", schema.field(found).type)  # which raises for values without an order
        orders.append(_Order(found, schema.field(found).type, is_descending))
    return orders


def _ranks_for(ranked: RankedRows, orders: list[_Order]) -> SlotRanks:
    texts, descending, words = [], [], 0
    for each in orders:
        if each.is_text:
            texts.append(words + 1)
            if each.is_descending:
                descending.append(words + 1)
        words += each.width
    return SlotRanks(ranked.limit, words, texts, descending, ranked.is_newest_first)


@dataclass(frozen=True)
class _Order:
    """One column that rows are ordered by, as words: whether there is a value, then the value."""

    place: int  # among the columns of a row
    type: pa.DataType
    is_descending: bool

    @property
    def is_text(self) -> bool:
        """Return whether its words are where a text begins, and its size."""
        from pyarrow import types

        return any(
            is_kind(self.type)
            for is_kind in (
                types.is_string,
                types.is_large_string,
                types.is_binary,
                types.is_large_binary,
                types.is_fixed_size_binary,
            )
        )

    @property
    def width(self) -> int:
        """Return how many words it has."""
        import pyarrow as pa

        return 3 if self.is_text or pa.types.is_decimal(self.type) else 2

    def write(self, column: pa.Array, words: np.ndarray) -> pa.Array:
        """Write the words of a column; returned is what holds the memory that they point to."""
        import numpy as np
        import pyarrow as pa

        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else True
        words[:, 0] = valid
        if self.is_text:
            _write_texts(column, words[:, 1:], valid)
        elif pa.types.is_decimal(self.type):
            pairs = column.cast(pa.decimal128(38, self.type.scale))
            halves = np.frombuffer(pairs.buffers()[1], np.int64, 2 * len(column), 16 * pairs.offset)
            words[:, 1] = np.where(valid, halves[1::2], 0)
            words[:, 2] = np.where(valid, halves[::2] ^ np.int64(-(2**63)), 0)
        else:
            words[:, 1] = np.where(valid, _numbers_of(column), 0)
        if self.is_descending:
            np.invert(words[:, 0], out=words[:, 0])
            if not self.is_text:
                np.invert(words[:, 1:], out=words[:, 1:])
        return column


def _numbers_of(column: pa.Array) -> np.ndarray:
    """Return numbers of up to 8 bytes as integers that compare as they do: NaN is the greatest, -0.0 is below 0.0."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import types

    type_ = column.type
    if types.is_boolean(type_):
        return column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_floating(type_):
        values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        bits = np.where(np.isnan(values), np.int64(0x7FF8 << 48), values.view(np.int64))
        found: np.ndarray = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
        return found
    if not types.is_integer(type_):
        column = column.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    if types.is_unsigned_integer(type_) and type_.bit_width == 64:
        shifted: np.ndarray = numbers.view(np.int64) ^ np.int64(-(2**63))
        return shifted
    return numbers.astype(np.int64)


def _write_texts(column: pa.Array, words: np.ndarray, valid: np.ndarray | bool) -> None:
    """Write where each text begins in memory, and its size."""
    import numpy as np
    from pyarrow import types

    *_, data = column.buffers()
    address = 0 if data is None else data.address
    if types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        starts, sizes = (np.arange(len(column)) + column.offset) * width, np.full(len(column), width)
    else:
        is_large = types.is_large_string(column.type) or types.is_large_binary(column.type)
        kind = np.dtype(np.int64 if is_large else np.int32)
        offsets = np.frombuffer(column.buffers()[1], kind, len(column) + 1, column.offset * kind.itemsize)
        starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets)
    words[:, 0] = starts + address
    words[:, 1] = np.where(valid, sizes, 0)
