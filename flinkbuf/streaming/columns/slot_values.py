"""Values of one type by slot, as the columns of a state have them: numpy where they have a width, else Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkbuf.streaming.columns.row_store import RowStore

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def slot_values(type_: pa.DataType) -> FixedValues | ArrowValues:
    """Return an empty store for values of a type.

    Raises
    ------
    TypeError
        For views, and what is encoded as a dictionary or as runs.
    """
    import pyarrow as pa

    _check_plain(type_)
    types = pa.types
    has_width = types.is_primitive(type_) or types.is_decimal(type_) or types.is_fixed_size_binary(type_)
    return FixedValues(type_) if has_width and type_.bit_width else ArrowValues(type_)


def _check_plain(type_: pa.DataType) -> None:
    from pyarrow import types

    tests = (
        types.is_dictionary,
        types.is_run_end_encoded,
        types.is_string_view,
        types.is_binary_view,
        types.is_list_view,
        types.is_large_list_view,
        types.is_union,
        lambda each: hasattr(each, "storage_type"),
    )
    if any(is_kind(type_) for is_kind in tests):
        raise TypeError(f"values of {type_} are not kept in a state: declare the plain type of the values")
    if types.is_map(type_):
        for each in (type_.key_type, type_.item_type):
            _check_plain(each)
    elif types.is_nested(type_):
        for place in range(type_.num_fields):
            _check_plain(type_.field(place).type)


class FixedValues:
    """Values that all have the same width.

    Parameters
    ----------
    type_ : pyarrow.DataType
    """

    def __init__(self, type_: pa.DataType) -> None:
        import numpy as np

        self._type = type_
        self._is_boolean = type_.bit_width == 1
        width = max(type_.bit_width // 8, 1)
        self._dtype = np.dtype(f"u{width}" if width in (1, 2, 4, 8) else f"V{width}")
        self._values = np.zeros(0, self._dtype)
        self._is_there = np.zeros(0, np.bool_)

    def reserve(self, count: int) -> None:
        """Have room for so many slots."""
        self._values = grown(self._values, count)
        self._is_there = grown(self._is_there, count)

    def put(self, slots: np.ndarray, column: pa.Array) -> None:
        """Put a value, or null, under each slot; of several for one slot, the last."""
        self._values[slots] = self._numbers_of(column)
        self._is_there[slots] = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else True

    def _numbers_of(self, column: pa.Array) -> np.ndarray:
        import numpy as np
        import pyarrow as pa

        if self._is_boolean:
            column = column.cast(pa.uint8())
        data = column.buffers()[1]
        if data is None or not len(column):
            return np.zeros(len(column), self._dtype)
        return np.frombuffer(data, self._dtype, column.offset + len(column))[column.offset :]

    def take(self, slots: np.ndarray) -> pa.Array:
        """Return the value of each slot; null where there is none."""
        import numpy as np
        import pyarrow as pa

        values, is_there = self._values[slots], self._is_there[slots]
        has_all = bool(is_there.all())
        validity = None if has_all else pa.py_buffer(np.packbits(is_there, bitorder="little"))
        data = pa.py_buffer(np.packbits(values, bitorder="little") if self._is_boolean else values)
        return pa.Array.from_buffers(self._type, len(slots), [validity, data], 0 if has_all else -1)

    def clear(self, slots: np.ndarray) -> None:
        """Have no values under some slots."""
        self._is_there[slots] = False

    def keep(self, slots: np.ndarray) -> None:
        """Keep the values of these slots, as those of slots 0, 1 and so on."""
        self._values, self._is_there = self._values[slots], self._is_there[slots]


class ArrowValues:
    """Values of any width: a slot has the number of a row, and gets another one with each value.

    Parameters
    ----------
    type_ : pyarrow.DataType
    """

    def __init__(self, type_: pa.DataType) -> None:
        import numpy as np
        import pyarrow as pa

        self._rows = RowStore(pa.schema([("value", type_)]))
        self._numbers = np.zeros(0, np.int64)  # of the row of each slot, from 1 on; 0: none

    def reserve(self, count: int) -> None:
        """Have room for so many slots."""
        self._numbers = grown(self._numbers, count)

    def put(self, slots: np.ndarray, column: pa.Array) -> None:
        """Put a value, or null, under each slot; of several for one slot, the last."""
        import numpy as np
        import pyarrow as pa

        self.clear(slots)
        column = column.take(np.arange(len(column)))  # a copy: what a user gives may change, or be a part of much
        first = self._rows.append(pa.record_batch([column], ["value"]))
        numbers = np.arange(first + 1, self._rows.next_number + 1)
        self._numbers[slots] = numbers
        self._rows.release(numbers[self._numbers[slots] != numbers] - 1)

    def take(self, slots: np.ndarray) -> pa.Array:
        """Return the value of each slot; null where there is none."""
        import numpy as np
        import pyarrow as pa

        numbers = self._numbers[slots]
        is_there = numbers > 0
        if is_there.all():
            return self._rows.take(numbers - 1).column(0)
        values = self._rows.take(numbers[is_there] - 1).column(0)
        return values.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))

    def clear(self, slots: np.ndarray) -> None:
        """Have no values under some slots."""
        import numpy as np

        numbers = np.unique(self._numbers[slots])
        self._rows.release(numbers[numbers > 0] - 1)
        self._numbers[slots] = 0

    def keep(self, slots: np.ndarray) -> None:
        """Keep the values of these slots, as those of slots 0, 1 and so on."""
        self._numbers = self._numbers[slots]
        self._rows.keep(self._numbers[self._numbers > 0] - 1)


def grown(array: np.ndarray, count: int) -> np.ndarray:
    """Return an array with room for `count` values, those behind the old ones zero; twice as many as there were."""
    import numpy as np

    if count <= len(array):
        return array
    larger = np.zeros(max(count, 2 * len(array), 64), array.dtype)
    larger[: len(array)] = array
    return larger
