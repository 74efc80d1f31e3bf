"""Functions of a user that take and give batches of columns: what an operator calls, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf._core.operators.batch_operator import MapBatchesOperator
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.records.arrow_batches import arrow_batches, arrow_schema, batch_builder, is_batch, record_type
from flinkbuf.streaming.chain.functions import MapBatchFunction, as_call, has_lifecycle

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

    from flinkbuf._core.columns.arrow_column import ArrowBatch
    from flinkbuf._core.value.type_codec import TypeCodec

MAX_ROWS = 8192
MAX_BYTES = 4 << 20
MAX_DELAY_MS = 100
KEPT, LATEST = "kept", "latest"
TIMESTAMPS = (KEPT, LATEST)


@dataclass(frozen=True)
class MapBatchesOperatorFactory:
    """Makes a `MapBatchesOperator`.

    Parameters
    ----------
    function : MapBatchFunction or callable
        Takes a RecordBatch.
    input_type : type
        Of the records that come; also says which Arrow types the columns have.
    output_type : type, optional
        Of the records that leave; None: what each batch says.
    max_rows, max_bytes : int
        A batch has no more rows, and ends soon behind the row that brings so many bytes.
    max_delay_ms : int
        How long a record waits for others; -1: as long as event time stands still.
    timestamps : {"kept", "latest"}
        What the rows have that the function gives: each that of its record, or all the latest of their batch.
    timestamp_column : str, optional
        The function sees them in a column of this name, and says them in it.
    """

    function: Any
    input_type: object
    output_type: object = None
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES
    max_delay_ms: int = MAX_DELAY_MS
    timestamps: str = KEPT
    timestamp_column: str | None = None

    def __call__(self) -> MapBatchesOperator:
        codec = record_type(self.input_type).codec
        builder = batch_builder(codec, self.input_type, self.max_rows, self.max_bytes)
        output = None if self.output_type is None else record_type(self.output_type).codec
        call = BatchCall(
            as_call(self.function, MapBatchFunction, "map_batch"), output, self.timestamps, self.timestamp_column
        )
        lifecycle = self.function if has_lifecycle(self.function) else None
        return MapBatchesOperator(call, RecordsToBatch(codec, builder), lifecycle, self.max_delay_ms)

    def check(self) -> None:
        """Refuse what no operator can be made of, while the program is written.

        Raises
        ------
        ValueError, TypeError
            If a limit is out of range; if a type has no columns; if the timestamps have a name that a column has.
        """
        if self.timestamps not in TIMESTAMPS:
            raise ValueError(f"timestamps must be one of {', '.join(map(repr, TIMESTAMPS))}, got {self.timestamps!r}")
        codec = record_type(self.input_type).codec
        batch_builder(codec, self.input_type, self.max_rows, self.max_bytes)
        if self.timestamp_column is None:
            return
        names = arrow_schema(self.input_type).names
        if self.timestamp_column in names:
            raise ValueError(
                f"timestamp_column must be a name that no column has, got {self.timestamp_column!r}; the records have "
                f"{', '.join(names)}"
            )


class BatchCall:
    """Calls the function with a batch, and gives what the operator emits: batches, timestamps of rows, the codec.

    Parameters
    ----------
    function : callable
        Takes a RecordBatch; gives a batch, an iterable of batches, or None.
    codec : TypeCodec, optional
        Of the records that the rows become; None: of each batch's own schema.
    timestamps, timestamp_column
        As for `MapBatchesOperatorFactory`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        codec: TypeCodec | None = None,
        timestamps: str = KEPT,
        timestamp_column: str | None = None,
    ) -> None:
        self._function = function
        self._codec = codec
        self._timestamps = timestamps
        self._column = timestamp_column
        self._codecs: dict[object, TypeCodec] = {}  # by schema

    def __call__(
        self, batch: pyarrow.RecordBatch, timestamps: np.ndarray | None
    ) -> Iterator[tuple[ArrowBatch, np.ndarray | None, TypeCodec]]:
        if self._column is not None:
            return self._with_column(batch, timestamps)
        given = self._given(self._function(batch))
        if timestamps is None or not batch.num_rows:
            return ((each, None, codec) for each, codec in given)
        if self._timestamps == LATEST:
            return self._with_latest(given, timestamps)
        return self._with_kept(given, timestamps)

    def _given(self, results: object) -> Iterator[tuple[ArrowBatch, TypeCodec]]:
        """Yield the batches in the function's result, with the codec of their rows."""
        for result in each_batch(results):
            if self._codec is not None:
                for each in arrow_batches(_plain(result)):
                    yield each, self._codec
            else:
                for batch in record_batches(result):
                    codec = self._codec_of(batch.schema)
                    for each in arrow_batches(batch):
                        yield each, codec

    def _with_kept(
        self, given: Iterator[tuple[ArrowBatch, TypeCodec]], timestamps: np.ndarray
    ) -> Iterator[tuple[ArrowBatch, np.ndarray, TypeCodec]]:
        position = 0
        for each, codec in given:
            end = position + len(each)
            if end > len(timestamps):
                raise _lost_timestamps(len(timestamps), f"at least {end}")
            yield each, timestamps[position:end], codec
            position = end
        if position < len(timestamps):
            raise _lost_timestamps(len(timestamps), position)

    def _with_latest(
        self, given: Iterator[tuple[ArrowBatch, TypeCodec]], timestamps: np.ndarray
    ) -> Iterator[tuple[ArrowBatch, np.ndarray, TypeCodec]]:
        import numpy as np

        latest = timestamps.max()
        for each, codec in given:
            yield each, np.full(len(each), latest), codec

    def _with_column(
        self, batch: pyarrow.RecordBatch, timestamps: np.ndarray | None
    ) -> Iterator[tuple[ArrowBatch, np.ndarray, TypeCodec]]:
        import pyarrow as pa

        name = str(self._column)
        if timestamps is None:
            column = pa.nulls(batch.num_rows, pa.int64())
        else:
            column = pa.array(timestamps, mask=timestamps == NO_TIMESTAMP)
        for result in each_batch(self._function(batch.append_column(name, column))):
            for rows in record_batches(result):
                if rows.schema.get_field_index(name) < 0:
                    raise ValueError(
                        f"the batch that map_batches() was given has no column {name!r}, in which the timestamps of "
                        f"its rows are to be; there are {', '.join(rows.schema.names) or 'none'}"
                    )
                taken = milliseconds_in(rows.column(name), name)
                rest = rows.drop_columns([name])
                codec = self._codec if self._codec is not None else self._codec_of(rest.schema)
                for each in arrow_batches(rest):
                    yield each, taken, codec

    def _codec_of(self, schema: pyarrow.Schema) -> TypeCodec:
        codec = self._codecs.get(schema)
        if codec is None:
            codec = self._codecs[schema] = record_type(schema).codec
        return codec


def each_batch(results: object) -> Iterable[object]:
    """Yield the batches of an iterable that the function gave."""
    if results is None:
        return ()
    if is_result(results):
        return (results,)
    if hasattr(results, "__iter__") and not isinstance(results, (dict, str, bytes)):
        return _checked(results)
    raise _no_batch(results)


def _checked(results: Iterable[object]) -> Iterator[object]:
    for result in results:
        if not is_result(result):
            raise _no_batch(result)
        yield result


def is_result(value: object) -> bool:
    """Return whether a value is a batch that a function may give: also a dict of columns of any library."""
    if isinstance(value, dict):
        return bool(value) and all(map(_is_column, value.values()))
    return is_batch(value)


def _is_column(value: object) -> bool:
    return hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__") or is_batch({"": value})


def _no_batch(result: object) -> TypeError:
    return TypeError(
        "the function of map_batches() gives a batch, an iterable of batches or None; a batch is a pyarrow RecordBatch "
        "or Table, a DataFrame of polars or pandas, a dict of arrays, or a structured array of numpy; got "
        f"{type(result).__module__}.{type(result).__qualname__}, {result!r:.80}"
    )


def _lost_timestamps(count: int, given: object) -> ValueError:
    return ValueError(
        f"the function of map_batches() was given {count} rows with timestamps and gave {given}, so it is not known "
        "which row has which timestamp: say timestamp_column='...' to have them as a column, which the rows keep, or "
        "timestamps='latest' to give all rows the latest of their batch"
    )


def _plain(result: object) -> Any:
    """Return the same columns; a filtered DataFrame of pandas would bring its index as one more."""
    if isinstance(result, dict) and not is_batch(result):
        import pyarrow as pa

        return pa.record_batch(
            {name: array_of(column, f"for {name!r} the function gives") for name, column in result.items()}
        )
    if type(result).__module__.partition(".")[0] == "pandas":
        import pyarrow as pa

        return pa.Table.from_pandas(result, preserve_index=False)
    return result


def array_of(column: object, said: str, or_else: str = "") -> pyarrow.Array:
    """Return a column that a function of the user gave as an array of Arrow.

    Raises
    ------
    TypeError
        If it is no column; `said` and `or_else` say what was wanted.
    """
    import pyarrow as pa

    if isinstance(column, pa.Array):
        return column
    if isinstance(column, pa.ChunkedArray):
        return array_of_chunks(column)
    if is_polars(column) and hasattr(column, "to_arrow"):
        return column.to_arrow()  # its own stream has views of texts
    if not hasattr(column, "__len__") or isinstance(column, (str, bytes)):
        raise TypeError(
            f"{said} a column, such as an Arrow or numpy array{or_else}; got {type(column).__name__} {column!r:.80}"
        )
    return pa.array(column)


def array_of_chunks(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    """Return all values in one array."""
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def is_polars(value: object) -> bool:
    """Return whether a value is of polars, which is not imported for that."""
    return type(value).__module__.partition(".")[0] == "polars"


def record_batches(result: Any) -> Iterable[pyarrow.RecordBatch]:
    """Yield a batch of any kind as batches of pyarrow.

    They may be over the memory of arrays of numpy, and tell so to who keeps them, which none does that came through
    Arrow's C interface.
    """
    import pyarrow as pa

    if isinstance(result, pa.RecordBatch):
        return (result,)
    result = _plain(result)
    if is_polars(result):
        result = result.to_arrow()  # its stream has views of texts, of which pyarrow can take no rows
    if isinstance(result, pa.RecordBatch):
        return (result,)
    if isinstance(result, pa.Table):
        return result.to_batches()
    if hasattr(result, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(result)
    if hasattr(result, "__arrow_c_array__"):
        return (pa.record_batch(result),)
    names = result if isinstance(result, dict) else result.dtype.names
    return (pa.record_batch({name: pa.array(result[name]) for name in names}),)


def milliseconds_in(column: pyarrow.Array, name: str) -> np.ndarray:
    """Return timestamps as an operator has them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        if column.type.unit in ("us", "ns"):
            column = column.cast(pa.timestamp(column.type.unit))  # in UTC
            column = pc.floor_temporal(column, unit="millisecond")  # a cast would round towards 1970
        if column.type.unit != "ms":
            column = column.cast(pa.timestamp("ms"))
        column = column.view(pa.int64())
    elif pa.types.is_int64(column.type):
        pass
    elif pa.types.is_null(column.type) or pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    else:
        raise TypeError(
            f"column {name!r} holds the timestamps of rows: integers, milliseconds since 1970, or timestamps of Arrow; "
            f"got {column.type}"
        )
    return (pc.fill_null(column, NO_TIMESTAMP) if column.null_count else column).to_numpy()
