"""async_map(): the async operator inside the tasks of an RDD or a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from flinkbuf.async_function import AsyncOptions, CallContext, as_function
from flinkbuf.async_stats import AsyncStats, shortened

if TYPE_CHECKING:
    from flinkbuf.async_io import AsyncOperator
    from pyspark import RDD
    from pyspark.sql import DataFrame

_SLICE_ROWS = 1024  # rows of an Arrow batch that are made Python objects at once
_OUTPUT_ROWS = 10_000  # rows of an Arrow batch given back; spark.sql.execution.arrow.maxRecordsPerBatch


def _logger() -> Any:
    import logging  # not before there is something to say: it would double the time of importing flinkbuf

    return logging.getLogger("flinkbuf")


def async_map(
    data: "RDD[Any] | DataFrame",
    func: Any,
    *,
    schema: Any = None,
    capacity: int = 100,
    concurrency: int | None = None,
    timeout: float | None = None,
    ordered: bool = True,
    retry: Any = None,
    open: Callable[..., Any] | None = None,
    close: Callable[[Any], Any] | None = None,
    flat: bool = False,
    key: Any = None,
    rate_limit: float | None = None,
    rate_limit_scope: str = "task",
    batch_size: int | None = None,
    batch_timeout: float = 0.05,
    on_error: Any = "raise",
    on_timeout: Callable[[Any], Any] | None = None,
    deadline: float | None = None,
    threads: int | None = None,
    close_timeout: float = 5.0,
    event_loop: str = "auto",
    stats: AsyncStats | None = None,
) -> Any:
    """Call a coroutine for every record, many at a time, and give its results.

    Each Spark task keeps up to `capacity` calls in flight on an event loop of its own.

    Parameters
    ----------
    data : RDD or DataFrame
        The records. Rows of a DataFrame reach the function as ``pyspark.sql.Row``.
    func : coroutine function, function, or object with ``async_invoke``
        ``async def func(record)``, or ``func(record, session)`` with `open`. A plain function runs on a pool of
        threads. A PyFlink ``AsyncFunction`` is taken as it is; its results are lists. A parameter named ``context``
        is given the `CallContext`.
    schema : str, StructType or type, optional
        For a DataFrame: the columns that the function's result fills, such as ``"temp double, wind double"``. A column
        of the input with the same name is replaced, others are appended. The result is a tuple, Row, list or dict, a
        plain value if there is one column, or None for nulls.
    capacity : int, default 100
        Records that a task holds at once, finished ones that wait for their turn included.
    concurrency : int, optional
        Calls that a task makes at once; `capacity` if left out. With results in order, a capacity of several times the
        concurrency lets calls go on behind one that is slow.
    timeout : float, optional
        Seconds for one record from its first call on, retries and their delays included.
    ordered : bool, default True
        Results in the order of the records; else as they come.
    retry : FixedDelayRetry, ExponentialRetry or PyFlink's AsyncRetryStrategy, optional
        When a failed call is made again.
    open, close : callable, optional
        ``open()`` or ``open(context)`` makes the session of a task, ``close(session)`` ends it, on every path; both may
        be coroutine functions. Without `close` an async context manager is entered and left.
    flat : bool, default False
        Each result is an iterable of none, one or many results.
    key : str, int or callable, optional
        Records with equal keys are called for one after the other, in their order; a field or a function of the record.
    rate_limit : float, optional
        Calls per second, retries included.
    rate_limit_scope : {"task", "job"}, default "task"
        ``"job"``: the limit is divided by the number of tasks that run at once.
    batch_size : int, optional
        One call for up to so many records: the function takes a list and returns a list of as many results, matched by
        position. An exception among them fails that record alone.
    batch_timeout : float, default 0.05
        Seconds after which a batch is sent that did not fill.
    on_error : {"raise", "skip"} or callable, default "raise"
        What a record comes to whose call failed for good: the task fails; the record is left out, counted and kept with
        its error in ``stats.skipped_records``; or ``on_error(record, error)`` gives its result.
    on_timeout : callable, optional
        ``on_timeout(record)`` gives the result of a record whose time ran out.
    deadline : float, optional
        Seconds for a whole task.
    threads : int, optional
        Size of the pool for a plain function; by default `capacity`, at most 32.
    close_timeout : float, default 5
        Seconds that cancelled calls, and then `close`, may take.
    event_loop : {"auto", "asyncio", "uvloop"}, default "auto"
        What runs the calls; ``"auto"`` is uvloop if it is installed and there is an `open`, which mostly means sockets.
    stats : AsyncStats, optional
        On the driver; every task that ends adds its counts, also if it is run again. A summary of each goes to the
        logger ``flinkbuf`` in any case.

    Returns
    -------
    RDD or DataFrame
        As lazy as any: calls are made when an action runs, and again when Spark computes a partition again.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit.
    AsyncCallError, AsyncTimeoutError
        When the job runs, if a call failed for good; with record, attempts and the original error.

    References
    ----------
    Flink ``AsyncDataStream.orderedWait``, ``unorderedWait``.

    Examples
    --------
    >>> async def fetch(url, session):
    ...     async with session.get(url) as response:
    ...         return await response.text()
    >>> pages = fb.async_map(urls, fetch, open=aiohttp.ClientSession, timeout=5.0)    # doctest: +SKIP
    """
    from pyspark import RDD
    from pyspark.sql import DataFrame

    if not isinstance(data, (RDD, DataFrame)):
        raise TypeError(f"async_map() takes an RDD or a DataFrame, got {type(data).__module__}.{type(data).__qualname__}")
    if rate_limit_scope not in ("task", "job"):
        raise ValueError(f"rate_limit_scope must be 'task' or 'job', got {rate_limit_scope!r}")
    if rate_limit is not None and rate_limit_scope == "job":
        rate_limit /= _tasks_at_once(data)
    options = AsyncOptions(
        capacity=capacity, concurrency=concurrency, timeout=timeout, ordered=ordered, retry=retry, open=open,
        close=close, flat=flat, key=_as_key(key), rate_limit=rate_limit, batch_size=batch_size,
        batch_timeout=batch_timeout, on_error=on_error, on_timeout=on_timeout, deadline=deadline, threads=threads,
        close_timeout=close_timeout, event_loop=event_loop,
    )  # fmt: skip
    as_function(func, options)  # what does not fit fails here, not in a task
    accumulator = _accumulator(data, stats if stats is not None else AsyncStats())
    if not isinstance(data, RDD):
        return _map_frame(data, func, options, schema, accumulator)
    if schema is not None:
        raise ValueError("schema= is for DataFrames; what the function returns becomes a record of the RDD as it is")
    return data.mapPartitions(RecordTask(func, options, accumulator, data.getNumPartitions()))


@dataclass(frozen=True)
class RecordTask:
    """The body of one Spark task over an RDD, pickled to where it runs."""

    func: Any
    options: AsyncOptions
    accumulator: Any
    partition_count: int

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the results for the records of a Spark partition."""
        from flinkbuf.async_io import AsyncOperator  # brings asyncio, which the driver need not load

        operator = AsyncOperator(self.func, self.options, context=_call_context(self.partition_count))
        yield from _reporting(operator, operator.run(records), self.accumulator)


class Place(NamedTuple):
    """A row on its way through the operator, and where its other columns wait."""

    batch: Any  # pyarrow.RecordBatch of the columns that are kept
    position: int
    row: Any


@dataclass(frozen=True)
class FrameTask:
    """The body of one Spark task over Arrow batches, pickled to where it runs."""

    func: Any
    options: AsyncOptions
    accumulator: Any
    output_names: list[str]
    result_fields: dict[str, Any]  # pyarrow types of the result columns, by name

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield Arrow batches: the input's columns and those of the results."""
        from flinkbuf.async_io import AsyncOperator

        operator = AsyncOperator(
            self.func, self.options, context=_call_context(0), keeps_record=True, value_of=itemgetter(2)
        )
        ready: list[tuple[Place, Any]] = []
        for pair in _reporting(operator, operator.run(self._places(batches)), self.accumulator):
            ready.append(pair)
            if len(ready) >= _OUTPUT_ROWS:
                yield self._batch_of(ready)
                ready = []
        if ready:
            yield self._batch_of(ready)

    def _places(self, batches: Iterable[Any]) -> Iterator[Place]:
        """Yield the rows of Arrow batches, made Python objects a slice at a time."""
        from pyspark.sql import Row

        for whole in batches:
            names = whole.schema.names
            make_row = Row(*names)
            kept = whole.select([name for name in names if name not in self.result_fields])
            for start in range(0, whole.num_rows, _SLICE_ROWS):
                columns = [column.to_pylist() for column in whole.slice(start, _SLICE_ROWS).columns]
                rows = zip(*columns, strict=True) if columns else ((),) * min(_SLICE_ROWS, whole.num_rows - start)
                for index, values in enumerate(rows, start):
                    yield Place(kept, index, make_row(*values))

    def _batch_of(self, ready: list[tuple[Place, Any]]) -> Any:
        """Make one Arrow batch of results and the columns of their rows."""
        import pyarrow as pa

        parts: dict[int, tuple[Any, list[int], list[Any]]] = {}  # by input batch: rows and results
        for place, result in ready:
            part = parts.get(id(place.batch))
            if part is None:
                parts[id(place.batch)] = part = (place.batch, [], [])
            part[1].append(place.position)
            part[2].append(result)
        results = [result for _, _, found in parts.values() for result in found]
        columns = dict(zip(self.result_fields, self._columns_of(results), strict=True))
        names = [name for name in self.output_names if name not in columns]
        for name in names:
            taken = [batch.column(name).take(pa.array(rows, pa.int64())) for batch, rows, _ in parts.values()]
            columns[name] = pa.concat_arrays(taken)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.output_names], self.output_names)

    def _columns_of(self, results: list[Any]) -> list[Any]:
        """Make a pyarrow array of each result column."""
        import pyarrow as pa

        names = list(self.result_fields)
        rows = [_as_tuple(result, names) for result in results]
        arrays = []
        for position, (name, arrow_type) in enumerate(self.result_fields.items()):
            values = [row[position] for row in rows]
            try:
                arrays.append(pa.array(values, arrow_type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
                raise TypeError(
                    f"column {name!r} is declared as {arrow_type} in schema=, but the function gave something else: "
                    f"{error}"
                ) from error
        return arrays


def _as_tuple(result: Any, names: list[str]) -> Any:
    """Bring what the function gave for a row into the order of the result columns."""
    if result is None:
        return (None,) * len(names)
    if isinstance(result, dict):
        unknown = result.keys() - set(names)
        if unknown:
            raise ValueError(f"the function gave columns {sorted(unknown)} that are not in schema= ({', '.join(names)})")
        return [result.get(name) for name in names]
    if isinstance(result, (tuple, list)) and (len(names) > 1 or isinstance(result, tuple)):
        if len(result) != len(names):
            raise ValueError(
                f"the function gave {len(result)} values for the {len(names)} columns of schema= ({', '.join(names)}): "
                f"{shortened(result)}"
            )
        return result
    if len(names) == 1:
        return (result,)
    raise TypeError(
        f"the function gave {type(result).__name__} {shortened(result)} for the columns {', '.join(names)}; give a tuple, "
        "a Row, a list or a dict"
    )


def _map_frame(data: Any, func: Any, options: AsyncOptions, schema: Any, accumulator: Any) -> Any:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructType

    if schema is None:
        raise ValueError('a DataFrame needs schema=, the columns that the results fill, such as "temp double, wind double"')
    if isinstance(schema, str):
        result: Any = StructType.fromDDL(schema)
    elif isinstance(schema, StructType):
        result = schema
    else:
        from flinkbuf.spark.schema import to_struct_type

        result = to_struct_type(schema)
    if not result.fields:
        raise ValueError("schema= names no column")
    new = {field.name: field for field in result.fields}
    old = data.schema.fields
    fields = [new.get(field.name, field) for field in old]
    present = {field.name for field in old}
    fields += [field for field in result.fields if field.name not in present]
    arrow_types = {name: to_arrow_type(field.dataType) for name, field in new.items()}
    task = FrameTask(func, options, accumulator, [field.name for field in fields], arrow_types)
    return data.mapInArrow(task.__call__, StructType(fields))


def _as_key(key: Any) -> Any:
    return itemgetter(key) if isinstance(key, (str, int)) and not isinstance(key, bool) else key


def _tasks_at_once(data: Any) -> int:
    """How many tasks of the job can run at the same time, as far as the driver knows."""
    if hasattr(data, "getNumPartitions"):
        return max(1, min(data.getNumPartitions(), data.context.defaultParallelism))
    try:
        return max(1, data.sparkSession.sparkContext.defaultParallelism)
    except Exception as error:
        raise ValueError(
            "rate_limit_scope='job' needs to know how many tasks run at once, which this session does not tell; divide the "
            "limit yourself and leave rate_limit_scope out"
        ) from error


def _call_context(partition_count: int) -> CallContext:
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return CallContext(partition_count=partition_count)
    return CallContext(task.partitionId(), partition_count, task.attemptNumber(), task.stageId())


# ---------------------------------------------------------------- counters


class StatsParam:
    """Adds up the counts of tasks, as Spark's accumulators want it; on the driver each task leaves a line in the log."""

    def __init__(self, is_driver: bool = False) -> None:
        self.is_driver = is_driver

    def __reduce__(self) -> Any:
        return StatsParam, ()  # whoever unpickles it is not the driver

    def zero(self, value: AsyncStats) -> AsyncStats:
        """Return counts of nothing."""
        return AsyncStats()

    def addInPlace(self, value: AsyncStats, other: AsyncStats) -> AsyncStats:
        """Add `other` to `value`."""
        if self.is_driver:
            _logger().info("async_map: a task ended after %.1f s: %s", other.seconds, other)
        return value.merge(other)


def _accumulator(data: Any, stats: AsyncStats) -> Any:
    """Make an accumulator that adds to `stats`; None where there is no driver to reach, as in Spark Connect."""
    from pyspark import RDD

    try:
        context = data.context if isinstance(data, RDD) else data.sparkSession.sparkContext
    except Exception:
        return None
    return context.accumulator(stats, StatsParam(is_driver=True))  # type: ignore[arg-type]


def _reporting(operator: "AsyncOperator", results: Iterator[Any], accumulator: Any) -> Iterator[Any]:
    try:
        yield from results
    finally:
        results.close()  # type: ignore[attr-defined]
        if accumulator is not None:
            accumulator.add(operator.stats)
