"""Arrays of numpy as columns, without pyarrow: what each kind of array is in Arrow, and in which buffers it lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flinkbuf._core.flow.numpy_batch import numpy_batch

if TYPE_CHECKING:
    import numpy as np

    from flinkbuf._core.columns.arrow_column import ArrowBatch

_NUMBERS = {
    "i1": b"c", "u1": b"C", "i2": b"s", "u2": b"S", "i4": b"i", "u4": b"I", "i8": b"l", "u8": b"L",
    "f2": b"e", "f4": b"f", "f8": b"g",
}  # fmt: skip
_UNITS = {"s": b"s", "ms": b"m", "us": b"u", "ns": b"n"}
_MAX_OFFSET = 2**31 - 1


def batch_of_arrays(columns: Mapping[str, np.ndarray]) -> ArrowBatch | None:
    """The columns as one batch; None if there is one that Python's own objects have to be asked about.

    Raises
    ------
    ValueError
        For columns of several lengths.
    TypeError
        For an array that is no column, naming it.

    Examples
    --------
    >>> import numpy as np
    >>> len(batch_of_arrays({"a": np.arange(3), "b": np.array(["x", "y", "z"])}))
    3
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a batch have one length, got {lengths}")
    found = []
    for name, column in columns.items():
        parts = _parts_of(name, column)
        if parts is None:
            return None
        found.append((name.encode(), *parts))
    return numpy_batch(next(iter(lengths.values()), 0), found)


def _parts_of(name: str, column: np.ndarray) -> tuple[bytes, int, tuple[object, ...]] | None:
    """Format, how many are null, and buffers."""
    import numpy as np

    nulls = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    values = np.ascontiguousarray(np.ma.getdata(column))
    kind = values.dtype.kind
    if values.dtype.byteorder not in "=|":
        values = values.astype(values.dtype.newbyteorder("="))
    if kind == "b":
        return b"b", *_validity(nulls, np.packbits(values, bitorder="little"))
    if kind in "iuf":
        form = _NUMBERS.get(values.dtype.str[1:])
        if form is None:
            raise TypeError(f"column {name!r}: Arrow has no type for numpy's {values.dtype}")
        # A BIG_INT is as long as its digits, and is measured before it is written: they must not change in between.
        return form, *_validity(nulls, values.copy() if kind in "iu" else values)
    if kind in "mM":
        return _time_parts(name, values, nulls)
    if kind in "USTO":
        return _text_parts(name, values, nulls)
    raise TypeError(f"column {name!r}: Arrow has no type for numpy's {values.dtype}")


def _validity(nulls: np.ndarray | None, *buffers: np.ndarray) -> tuple[int, tuple[np.ndarray | None, ...]]:
    """How many are null, and the buffers behind the bits that say which."""
    import numpy as np

    count = 0 if nulls is None else int(nulls.sum())
    bits = None if nulls is None or not count else np.packbits(~nulls, bitorder="little")
    return count, (bits, *(buffer.view(np.uint8) for buffer in buffers))


def _time_parts(name: str, values: np.ndarray, nulls: np.ndarray | None) -> tuple[bytes, int, tuple[object, ...]]:
    import numpy as np

    unit, step = np.datetime_data(values.dtype)
    missing = np.isnat(values)
    nulls = missing if nulls is None else nulls | missing
    if unit == "D" and step == 1 and values.dtype.kind == "M":
        days = values.view(np.int64)
        if days[~nulls].size and np.abs(days[~nulls]).max() > _MAX_OFFSET:
            raise TypeError(f"column {name!r}: a date beyond those of date32")
        return b"tdD", *_validity(nulls, np.where(nulls, 0, days).astype(np.int32))
    if unit not in _UNITS or step != 1:
        raise TypeError(f"column {name!r}: Arrow has no type for numpy's {values.dtype}; cast it to s, ms, us or ns")
    form = b"tD" + _UNITS[unit] if values.dtype.kind == "m" else b"ts" + _UNITS[unit] + b":"
    return form, *_validity(nulls, values.view(np.int64))


def _text_parts(
    name: str, values: np.ndarray, nulls: np.ndarray | None
) -> tuple[bytes, int, tuple[object, ...]] | None:
    """Text and bytes; of objects only where all are one of the two, or None."""
    import numpy as np

    items = values.tolist()
    if values.dtype.kind in "OT":
        is_null = (
            [item is None or item != item for item in items]
            if values.dtype.kind == "T"
            else [item is None for item in items]
        )
        nulls = np.array(is_null, bool) if nulls is None else nulls | np.array(is_null, bool)
    if nulls is not None:
        items = [b"" if null else item for item, null in zip(items, nulls.tolist(), strict=True)]
    present = (
        {type(item) for item, null in zip(items, nulls, strict=True) if not null}
        if nulls is not None
        else {str if values.dtype.kind == "U" else bytes}
    )
    if present not in ({str}, {bytes}):
        return None
    is_text = present == {str}
    try:
        encoded = [item.encode() if isinstance(item, str) else item for item in items]
    except UnicodeEncodeError as error:
        raise TypeError(f"column {name!r}: {error}") from None
    offsets = np.zeros(len(items) + 1, np.int64)
    np.cumsum([len(item) for item in encoded], out=offsets[1:])
    is_large = offsets[-1] > _MAX_OFFSET
    form = (b"U" if is_large else b"u") if is_text else (b"Z" if is_large else b"z")
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return form, *_validity(nulls, offsets if is_large else offsets.astype(np.int32), data)
