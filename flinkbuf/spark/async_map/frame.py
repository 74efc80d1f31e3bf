"""async_map() over a DataFrame: Arrow batches become rows for the function, its results become columns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.operator import NOTHING_YET, AsyncOperator
from flinkbuf.async_io.stats import shortened
from flinkbuf.spark.async_map.report import Report, call_context, log_in_task
from flinkbuf.spark.worker_output import flush_results
from flinkbuf.spark.workers import shipped

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructField, StructType

T = TypeVar("T")

_SLICE_ROWS = 1024  # rows of an Arrow batch that are made Python objects at once
_OUTPUT_ROWS = 10_000  # rows of an Arrow batch given back; spark.sql.execution.arrow.maxRecordsPerBatch
_OUTPUT_SECONDS = 0.2  # or as many as come in this time, so that a limit() or a stream need not wait for slow calls


def map_frame(data: DataFrame, func: object, options: AsyncOptions, schema: object, report: Report) -> DataFrame:
    """Make the DataFrame with the columns of `schema` filled by `func`."""
    from pyspark.sql.types import StructField, StructType

    from flinkbuf.records.spark_arrow import arrow_type_of
    from flinkbuf.spark.async_map.arrow_values import check_field_names

    if schema is None:
        raise ValueError(
            'a DataFrame needs schema=, the columns that the results fill, such as "temp double, wind double"'
        )
    if isinstance(schema, str):
        result = StructType.fromDDL(schema)
    elif isinstance(schema, StructType):
        result = schema
    else:
        from flinkbuf.spark.frames.schema import to_struct_type

        result = to_struct_type(schema)
    if not isinstance(result, StructType) or not result.fields:
        raise ValueError(f'schema= names no column; give names and types, such as "temp double", got {schema!r}')
    if not data.columns:
        raise ValueError(
            "the DataFrame has no columns, so Spark would bring no row to the function: select one, such as lit(True)"
        )
    check_field_names(data.schema, "the DataFrame")
    check_field_names(result, "schema=")
    # Spark takes names that differ in case only for the same, unless it is told otherwise.
    is_exact = str(data.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    fold = str if is_exact else str.lower
    for names, where in ((data.columns, "the DataFrame"), (result.names, "schema=")):
        twice = sorted({name for name in names if [fold(each) for each in names].count(fold(name)) > 1})
        if twice:
            raise ValueError(f"{where} has columns of the same name: {', '.join(twice)}")
    present = {fold(name): name for name in data.columns}
    # A column that is replaced keeps its place and its name.
    results = [
        StructField(present.get(fold(field.name), field.name), field.dataType, field.nullable) for field in result
    ]
    for field in results:
        arrow_type_of(field.dataType)  # what Arrow does not know fails here, not in a task
    new = {field.name: field for field in results}
    fields = [new.get(field.name, field) for field in data.schema.fields]
    fields += [field for field in results if field.name not in data.columns]
    task = FrameTask(func, options, report, data.schema, [field.name for field in fields], results, result.names)
    return data.mapInArrow(shipped(task), StructType(fields))


class Place(NamedTuple):
    """A row on its way through the operator, and where its other columns wait."""

    batch: pyarrow.RecordBatch  # the columns that are kept
    position: int
    row: Row


@dataclass(frozen=True)
class FrameTask:
    """The body of one Spark task over Arrow batches, pickled to where it runs.

    Attributes
    ----------
    schema : StructType
        The input's.
    output_names : list of str
        The columns of the output, in their order.
    results : list of StructField
        The columns that come from the function.
    result_names : list of str
        What they are called in ``schema=``, and in a dict that the function gives.
    """

    func: object
    options: AsyncOptions
    report: Report
    schema: StructType
    output_names: list[str]
    results: list[StructField]
    result_names: list[str]

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield Arrow batches: the input's columns and those of the results."""
        operator = AsyncOperator(
            self.func,
            self.options,
            context=call_context(0),
            keeps_record=True,
            value_of=itemgetter(2),
            stats=self.report.new_stats(),
            log=log_in_task,
        )
        columns = ResultColumns(self.results, self.result_names)
        results = operator.run(self._places(batches), _OUTPUT_SECONDS)
        with closing(self.report.following(operator, results, self.options.log_interval)) as pairs:
            for ready in _portions(pairs):
                yield self._batch_of(ready, columns)
                flush_results()

    def _places(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[Place]:
        """Yield the rows of Arrow batches, made Python objects a slice at a time."""
        from pyspark.sql import Row

        from flinkbuf.spark.async_map.arrow_values import from_arrow

        names, converters = self.schema.names, [from_arrow(field.dataType) for field in self.schema.fields]
        make_row, replaced = Row(*names), {field.name for field in self.results}
        kept_names = [name for name in names if name not in replaced]
        for whole in batches:
            kept = whole.select(kept_names)
            for start in range(0, whole.num_rows, _SLICE_ROWS):
                lists = [column.to_pylist() for column in whole.slice(start, _SLICE_ROWS).columns]
                columns = [
                    map(each, values) if each else values for each, values in zip(converters, lists, strict=True)
                ]
                rows = zip(*columns, strict=True) if columns else ((),) * min(_SLICE_ROWS, whole.num_rows - start)
                for index, values in enumerate(rows, start):
                    yield Place(kept, index, make_row(*values))

    def _batch_of(self, ready: list[tuple[Place, object]], result_columns: ResultColumns) -> pyarrow.RecordBatch:
        """Make one Arrow batch of results and the columns of their rows."""
        import pyarrow as pa

        parts: dict[int, tuple[pyarrow.RecordBatch, list[int], list[object]]] = {}  # by input batch: rows and results
        for place, result in ready:
            part = parts.get(id(place.batch))
            if part is None:
                parts[id(place.batch)] = part = (place.batch, [], [])
            part[1].append(place.position)
            part[2].append(result)
        columns = result_columns.arrays([result for _, _, found in parts.values() for result in found])
        for name in self.output_names:
            if name not in columns:
                taken = [batch.column(name).take(pa.array(rows, pa.int64())) for batch, rows, _ in parts.values()]
                columns[name] = pa.concat_arrays(taken)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.output_names], self.output_names)


def _portions(pairs: Iterator[T]) -> Iterator[list[T]]:
    """Gather results: as many as a batch holds, or those of `_OUTPUT_SECONDS`, whether more come or not."""
    ready: list[T] = []
    started = 0.0
    for pair in pairs:
        if pair is not NOTHING_YET:
            if not ready:
                started = time.monotonic()
            ready.append(pair)
            if len(ready) < _OUTPUT_ROWS and time.monotonic() - started <= _OUTPUT_SECONDS:
                continue
        if ready:
            yield ready
            ready = []
    if ready:
        yield ready


class ResultColumns:
    """Makes Arrow columns of what the function gives.

    Parameters
    ----------
    fields : list of StructField
        The columns of ``schema=``, under the names of the output.
    names : list of str
        Their names in ``schema=``.
    """

    def __init__(self, fields: list[StructField], names: list[str]) -> None:
        from flinkbuf.records.spark_arrow import arrow_type_of
        from flinkbuf.spark.async_map.arrow_values import to_arrow

        self._fields = fields
        self._names = names
        self._types = [arrow_type_of(field.dataType) for field in fields]
        self._converters = [to_arrow(field.dataType) for field in fields]

    def arrays(self, results: list[object]) -> dict[str, pyarrow.Array]:
        """Return a pyarrow array for each column, by name.

        Raises
        ------
        TypeError, ValueError
            If a result does not fit; with the column.
        """
        import pyarrow as pa

        from flinkbuf.spark.async_map.arrow_values import null_part

        rows = [self._as_tuple(result) for result in results]
        arrays = {}
        for position, (field, arrow_type) in enumerate(zip(self._fields, self._types, strict=True)):
            values, convert = [row[position] for row in rows], self._converters[position]
            try:
                array = pa.array([convert(value) for value in values] if convert else values, arrow_type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError, TypeError, ValueError, OverflowError) as error:
                raise TypeError(
                    f"column {field.name!r} is declared as {arrow_type} in schema=, but the function gave something "
                    f"else: {error}"
                ) from error
            missing = null_part(array, field)
            if missing is not None:
                raise ValueError(
                    f"{missing} is declared NOT NULL in schema=, but the function gave None for it: declare "
                    "it without NOT NULL, or have the function give a value"
                )
            arrays[field.name] = array
        return arrays

    def _as_tuple(self, result: object) -> Sequence[object]:
        """Bring what the function gave for a row into the order of the columns."""
        names = self._names
        if result is None:
            return (None,) * len(names)
        if isinstance(result, dict) and not self._is_one_value(dict):
            unknown = result.keys() - set(names)
            if unknown:
                raise ValueError(
                    f"the function gave columns {sorted(unknown)} that are not in schema= ({', '.join(names)})"
                )
            return [result.get(name) for name in names]
        if isinstance(result, (tuple, list)) and not self._is_one_value(type(result)):
            if len(result) != len(names):
                raise ValueError(
                    f"the function gave {len(result)} values for the {len(names)} columns of schema= "
                    f"({', '.join(names)}): {shortened(result)}"
                )
            return result
        if len(names) == 1:
            return (result,)
        raise TypeError(
            f"the function gave {type(result).__name__} {shortened(result)} for the columns {', '.join(names)}; give a "
            "tuple, a Row, a list or a dict"
        )

    def _is_one_value(self, kind: type) -> bool:
        """Tell whether a result of this class is the value of the only column, and not a row with one column."""
        from pyspark.sql.types import ArrayType, MapType, StructType

        if len(self._names) > 1 or kind not in (list, dict):
            return False
        data_type = self._fields[0].dataType
        return isinstance(data_type, MapType) if kind is dict else isinstance(data_type, (ArrayType, StructType))
