"""async_map(): the async operator inside the tasks of an RDD or a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, overload

from flinkbuf.async_io.function import AsyncMapOptions, AsyncOptions, as_function
from flinkbuf.async_io.operator import AsyncOperator
from flinkbuf.async_io.stats import AsyncStats
from flinkbuf.spark.async_map.frame import map_frame
from flinkbuf.spark.async_map.report import Report, call_context, context_of, log_in_task
from flinkbuf.spark.frames.rdd_order import declare_order
from flinkbuf.spark.workers import check_workers, shipped

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from flinkbuf.async_io.retry import RetryOptions

    class CallOptions(TypedDict, total=False):
        """What the type of the results does not depend on."""

        capacity: int
        timeout: float | None
        ordered: bool
        retry: RetryOptions | object
        stats: AsyncStats | None

    class AllOptions(CallOptions, total=False):
        """Every option but the columns of a DataFrame."""

        open: Callable[..., object] | None
        close: Callable[[Any], object] | None
        on_error: Literal["raise", "skip"] | Callable[[Any, BaseException], object]
        options: AsyncMapOptions | None


T = TypeVar("T")
R = TypeVar("R")


@overload
def async_map(
    data: RDD[T],
    func: Callable[[T], Coroutine[object, object, R]],
    *,
    on_error: Literal["raise", "skip"] = ...,
    **options: Unpack[CallOptions],
) -> RDD[R]: ...
@overload
def async_map(data: RDD[T], func: object, **options: Unpack[AllOptions]) -> RDD[Any]: ...
@overload
def async_map(data: DataFrame, func: object, *, schema: object, **options: Unpack[AllOptions]) -> DataFrame: ...
def async_map(
    data: RDD[T] | DataFrame,
    func: object,
    *,
    schema: object = None,
    capacity: int = 100,
    timeout: float | None = None,
    ordered: bool = True,
    retry: object = None,
    open: Callable[..., object] | None = None,
    close: Callable[[Any], object] | None = None,
    on_error: object = "raise",
    stats: AsyncStats | None = None,
    options: AsyncMapOptions | None = None,
) -> RDD[object] | DataFrame:
    """Call a coroutine for every record, many at a time, and give its results.

    Each Spark task keeps up to `capacity` calls in flight on an event loop of its own. The loop has a thread of its
    own too: calls go on while the task waits for its input, or for whoever takes its output.

    Parameters
    ----------
    data : RDD or DataFrame
        The records. Rows of a DataFrame reach the function as ``pyspark.sql.Row``, with values as from ``collect()``.
    func : coroutine function, function, or object with ``async_invoke``
        ``async def func(record)``, or ``func(record, session)`` with `open`. A plain function runs on a pool of
        threads. A PyFlink ``AsyncFunction`` is taken as it is; its results are lists. A parameter named ``context``
        is given the `CallContext`.
    schema : str, StructType or type, optional
        For a DataFrame: the columns that the function's result fills, such as ``"temp double, wind double"``. A column
        of the input with the same name is replaced, others are appended. The result is a tuple, Row or list, in the
        order of these columns, a dict by their names, a plain value if there is one column, or None for nulls.
    capacity : int, default 100
        Records that a task holds at once, finished ones that wait for their turn included. Of a DataFrame, the Arrow
        batches come on top, the one that is read and the one that is made.
    timeout : float, optional
        Seconds for one record from its first call on, retries and their delays included.
    ordered : bool, default True
        Results in the order of the records; else as they come, in another order each time Spark computes a partition.
        Spark knows this of an RDD: a ``repartition`` behind it is computed again as a whole, or fails.
    retry : FixedDelayRetry, ExponentialRetry or PyFlink's AsyncRetryStrategy, optional
        When a failed call is made again. Records at the end of the input have all their attempts too; in Flink they
        are tried once more, at once.
    open, close : callable, optional
        ``open()`` or ``open(context)`` makes the session of a task, ``close(session)`` ends it, on every path; both may
        be coroutine functions. Without `close` an async context manager is entered and left.
    on_error : {"raise", "skip"} or callable, default "raise"
        What a record comes to whose call failed for good: the task fails; the record is left out, counted and kept with
        its error in ``stats.skipped_records``, as many as ``stats.kept_limit`` says; or ``on_error(record, error)``
        gives its result.
    stats : AsyncStats, optional
        On the driver; every task that ends adds its counts, also if it is run again. A summary of each goes to the
        driver's logger ``flinkbuf``, at level INFO, in any case.
    options : AsyncMapOptions, optional
        What few calls say: how many calls at once, batches, keys, a rate limit, results of none or many.

    Returns
    -------
    RDD or DataFrame
        As lazy as any: calls are made when an action runs, and again when Spark computes a partition again.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit.
    RuntimeError
        If Spark's workers cannot import flinkbuf in the same version: here, where Spark runs on this machine alone, and
        when the job runs, otherwise.
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
        kind = type(data)
        raise TypeError(f"async_map() takes an RDD or a DataFrame, got {kind.__module__}.{kind.__qualname__}")
    if stats is not None and not isinstance(stats, AsyncStats):
        raise TypeError(f"stats must be an fb.async_io.AsyncStats(), got {stats!r}")
    if not isinstance(options, (AsyncMapOptions, NoneType)):
        raise TypeError(f"options must be an fb.async_io.AsyncMapOptions(), got {options!r}")
    rare = options or AsyncMapOptions()
    checked = AsyncOptions(
        capacity=capacity,
        timeout=timeout,
        ordered=ordered,
        retry=retry,
        open=open,
        close=close,
        on_error=on_error,
        **{each.name: getattr(rare, each.name) for each in fields(AsyncMapOptions)},
    )
    if checked.rate_limit is not None and checked.rate_limit_scope == "job":
        checked = replace(checked, rate_limit=checked.rate_limit / _tasks_at_once(data))
    as_function(func, checked)  # what does not fit fails here, not in a task
    context = context_of(data)
    if context is not None:
        check_workers(context)
    report = Report.to(context, stats if stats is not None else AsyncStats())
    if not isinstance(data, RDD):
        return map_frame(data, func, checked, schema, report)
    if schema is not None:
        raise ValueError("schema= is for DataFrames; what the function returns becomes a record of the RDD as it is")
    made = data.mapPartitions(shipped(RecordTask(func, checked, report, data.getNumPartitions())))
    return declare_order(made, is_unordered=not ordered)


@dataclass(frozen=True)
class RecordTask:
    """The body of one Spark task over an RDD, pickled to where it runs."""

    func: object
    options: AsyncOptions
    report: Report
    partition_count: int

    def __call__(self, records: Iterable[object]) -> Iterator[object]:
        """Yield the results for the records of a Spark partition."""
        context = call_context(self.partition_count)
        stats = self.report.new_stats()
        operator = AsyncOperator(self.func, self.options, context=context, stats=stats, log=log_in_task)
        yield from self.report.following(operator, operator.run(records), self.options.log_interval)


def _tasks_at_once(data: RDD[object] | DataFrame) -> int:
    """How many tasks of the job can run at the same time, as far as the driver knows."""
    from pyspark import RDD

    if isinstance(data, RDD):
        return max(1, min(data.getNumPartitions(), data.context.defaultParallelism))
    try:
        return max(1, data.sparkSession.sparkContext.defaultParallelism)
    except Exception as error:
        raise ValueError(
            "rate_limit_scope='job' needs to know how many tasks run at once, which this session does not tell; divide "
            "the limit yourself and leave rate_limit_scope out"
        ) from error
