"""apply_in_arrow(): a function over the groups of a DataFrame, each as an iterator of Arrow batches.

Spark brings the rows of a key to one task and sorts them there, by the key, on disk if need be. The task cuts the
batches that come from that where the key changes. To Spark this is one ``mapInArrow``, which writes one stream of
batches to Python, where its own ``applyInArrow`` writes a stream for each group.

The other way to bring the rows of a key to one task, `flinkbuf.exchange`, leaves the sort to Spark as well, and the
rows would cross to Python and back once more before it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkbuf.spark.workers import check_workers, shipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType


def apply_in_arrow(
    data: DataFrame, key: str | int | Sequence[str | int], function: Callable[..., Any], schema: StructType | str
) -> DataFrame:
    """Call a function for each group of rows with an equal key, with the group as an iterator of Arrow batches.

    A group may be of any size: its batches come one after the other from where Spark has sorted the rows by key, on
    disk if need be, and the task holds one of them at a time. Many small groups cost little each, since their rows
    cross to Python in common batches, and their results back.

    Parameters
    ----------
    data : DataFrame
        The rows; may be one of Spark Connect. Not a stream.
    key : str, int, or sequence of these
        The columns by whose values rows are grouped, by name or place; ``"*"``: all.
    function : callable
        ``function(batches)`` or ``function(key, batches)``, as Spark's ``applyInArrow`` takes it since 4.1. `batches`
        is an iterator of ``pyarrow.RecordBatch`` with all columns; `key` a tuple of ``pyarrow.Scalar``. It gives
        batches, as a generator, an iterator or a list, as many as it likes.
    schema : StructType or str
        The columns of the function's batches, which are taken by their names.

    Returns
    -------
    DataFrame
        The rows that the function gives, in no order.

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it should be. When the job runs, if the function gives something else than schema
        says, with the column and the group; what the function raises goes on, with the group in a note of it.
    RuntimeError
        When the job runs, if the batches of a group are read after its results have come to their end. As for
        `flinkbuf.exchange`, if Spark's workers cannot import flinkbuf in the same version.

    Notes
    -----
    Keys are equal as in ``groupBy``: a null to a null, NaN to NaN, 0.0 to -0.0. A key is a number, a string, bytes, a
    boolean, a date, a time, or a struct or array of these; no map, and no text with a collation. The rows of a group
    come in any order.

    A group that the function does not read to its end is skipped. Batches are at most as large as those of
    ``mapInArrow`` (``spark.sql.execution.arrow.maxRecordsPerBatch``, ``maxBytesPerBatch``); small ones of the results
    are put together.

    References
    ----------
    Spark ``GroupedData.applyInArrow`` (SPARK-53614).

    Examples
    --------
    >>> import flinkbuf as fb
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> def longest(key, batches):
    ...     delay = max(pc.max(batch["delay"]).as_py() for batch in batches)
    ...     yield pa.record_batch({"origin": [key[0].as_py()], "delay": [delay]})
    >>> trips = spark.createDataFrame(  # doctest: +SKIP
    ...     [("JFK", 2.0), ("BOS", 7.5), ("JFK", -1.0)], "origin string, delay double"
    ... )
    >>> delays = fb.apply_in_arrow(trips, "origin", longest, "origin string, delay double")  # doctest: +SKIP
    >>> sorted(map(tuple, delays.collect()))  # doctest: +SKIP
    [('BOS', 7.5), ('JFK', 2.0)]
    """
    import pyarrow as pa
    from pyspark.sql import functions as F

    from flinkbuf.spark.exchange.frame_exchange import is_connect, setting, with_plain_names
    from flinkbuf.spark.exchange.frame_schema import as_struct_type, column_names, crossing_schema
    from flinkbuf.spark.groups.group_results import GroupSchema
    from flinkbuf.spark.groups.group_task import GroupTask

    _check_data(data)
    takes_key = _takes_key(function)
    result = as_struct_type(schema, "schema")
    _check_result(result)
    session = data.sparkSession
    if not is_connect(data):
        check_workers(session.sparkContext)
    zone = setting(session, "spark.sql.session.timeZone", "UTC")
    is_large = setting(session, "spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    crossing_schema(data.schema, zone, is_large)  # what Spark cannot bring to Python fails here, not in a task
    is_case_sensitive = setting(session, "spark.sql.caseSensitive", "false") == "true"
    places = _key_places(key, data.schema, is_case_sensitive)
    fields = [field.with_nullable(True) for field in crossing_schema(result, zone, is_large)]
    rows, source = with_plain_names(data, None)
    columns = [F.col(f"`{rows.columns[place]}`") for place in places]
    names = column_names(data.columns)
    task = GroupTask(
        function,
        takes_key,
        places,
        [names[place] for place in places],
        source,
        GroupSchema(pa.schema(fields), list(result.fields)),
    )
    return rows.repartition(*columns).sortWithinPartitions(*columns).mapInArrow(shipped(task), result)


def _check_data(data: object) -> None:
    """Refuse what is no DataFrame of rows that have an end.

    Raises
    ------
    TypeError
        With the way out.
    """
    from pyspark.sql import DataFrame

    if hasattr(data, "applyInArrow") and not isinstance(data, DataFrame):
        raise TypeError('apply_in_arrow() takes the DataFrame itself, not df.groupBy("id"): say key="id"')
    if not isinstance(data, DataFrame):
        kind = type(data)
        raise TypeError(f"apply_in_arrow() takes a DataFrame of PySpark, got {kind.__module__}.{kind.__qualname__}")
    if data.isStreaming:
        raise TypeError(
            "apply_in_arrow() needs all rows of a group, and a streaming DataFrame never has them: call it in "
            "foreachBatch() for the rows of a micro-batch, or use fb.transform_with_state()"
        )


def _takes_key(function: object) -> bool:
    """Whether a function is called with (key, batches), or with the batches alone.

    Raises
    ------
    TypeError
        If it is neither one nor the other.
    """
    if not callable(function):
        raise TypeError(f"function must be a function of the batches, or of key and batches; got {function!r}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin that does not tell
        raise TypeError(f"{function!r} does not say what it takes: write lambda batches: ...") from None
    by_place = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in by_place if each.default is each.empty] or by_place[:1]
    others = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if others or len(needed) not in (1, 2):
        raise TypeError(
            "function takes (batches) or (key, batches) and nothing else that has no default; got "
            f"{getattr(function, '__qualname__', function)}{inspect.signature(function)}"
        )
    if str(getattr(needed[-1].annotation, "__name__", needed[-1].annotation)).rpartition(".")[2] == "Table":
        raise TypeError(
            "function asks for a pyarrow.Table: apply_in_arrow() gives an iterator of batches, so that no group has to "
            "be in memory as a whole; if it may be: pa.Table.from_batches(batches)"
        )
    return len(needed) == 2


def _check_result(result: StructType) -> None:
    """Refuse a schema that names no column, or one twice.

    Raises
    ------
    ValueError
        With the name.
    """
    if not result.fields:
        raise ValueError('schema= names no column; give names and types, such as "id bigint, mean double"')
    twice = sorted({name for name in result.names if result.names.count(name) > 1})
    if twice:
        raise ValueError(f"schema= has columns of the same name: {', '.join(twice)}")


def _key_places(key: object, columns: StructType, is_case_sensitive: bool) -> list[int]:
    """Return which columns are the key.

    Raises
    ------
    TypeError, ValueError
        If there is no such column, or it is of a type that has no groups.
    """
    from flinkbuf.records.partitioner import WHOLE_RECORD, by_key
    from flinkbuf.spark.exchange.frame_schema import column_names, with_column_names

    names = column_names(columns.names)
    found = with_column_names(by_key(key), columns.names, is_case_sensitive).key  # type: ignore[attr-defined]
    parts = found if isinstance(found, tuple) else (found,)
    if parts == (WHOLE_RECORD,) and WHOLE_RECORD not in names:
        parts = tuple(names)
    places = [names.index(part) if isinstance(part, str) else part for part in parts]
    if wrong := [place for place in places if place >= len(names)]:
        raise ValueError(f"the key names column {wrong[0]}, and there are {len(names)}: {', '.join(names)}")
    if len(set(places)) < len(places):
        raise ValueError(f"the key names a column twice: {', '.join(names[place] for place in places)}")
    for place in places:
        _check_key(columns.fields[place])
    return places


def _check_key(field: StructField) -> None:
    """Refuse a column whose values Spark does not group, or finds equal by other rules than those of the bytes.

    Raises
    ------
    TypeError
        With the way out.
    """
    from flinkbuf.spark.data_source.types import check_not_collated

    check_not_collated(field)
    if not _is_groupable(field.dataType):
        raise TypeError(
            f"column {field.name!r} is {field.dataType.simpleString()}, by which rows cannot be grouped: group by "
            "columns of numbers, strings, bytes, dates or timestamps, or structs and arrays of these"
        )


def _is_groupable(data_type: DataType) -> bool:
    import pyspark.sql.types as spark

    if isinstance(data_type, spark.StructType):
        return all(_is_groupable(field.dataType) for field in data_type.fields)
    if isinstance(data_type, spark.ArrayType):
        return _is_groupable(data_type.elementType)
    return isinstance(
        data_type,
        (
            spark.NumericType,
            spark.StringType,
            spark.BinaryType,
            spark.BooleanType,
            spark.DatetimeType,
            spark.DayTimeIntervalType,
            spark.NullType,
        ),
    )
