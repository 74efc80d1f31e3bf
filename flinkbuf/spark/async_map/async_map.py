"""async_map(): the async operator inside the tasks of an RDD or a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, overload

from flinkbuf.async_io.function import AsyncOptions, as_function
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
        concurrency: int | None
        timeout: float | None
        ordered: bool
        retry: RetryOptions | Any
        key: str | int | Callable[[Any], Any] | None
        rate_limit: float | None
        rate_limit_scope: Literal["task", "job"]
        deadline: float | None
        threads: int | None
        close_timeout: float
        event_loop: Literal["auto", "asyncio", "uvloop"]
        log_interval: float
        stats: AsyncStats | None

    class AllOptions(CallOptions, total=False):
        """Every option but the columns of a DataFrame."""

        open: Callable[..., Any] | None
        close: Callable[[Any], Any] | None
        flat: bool
        batch_size: int | None
        batch_timeout: float
        on_error: Literal["raise", "skip"] | Callable[[Any, BaseException], Any]
        on_timeout: Callable[[Any], Any] | None


T = TypeVar("T")
R = TypeVar("R")


@overload
def async_map(
    data: RDD[T],
    func: Callable[[T], Coroutine[Any, Any, R]],
    *,
    on_error: Literal["raise", "skip"] = ...,
    **options: Unpack[CallOptions],
) -> RDD[R]: ...
@overload
def async_map(data: RDD[Any], func: Any, **options: Unpack[AllOptions]) -> RDD[Any]: ...
@overload
def async_map(data: DataFrame, func: Any, *, schema: Any, **options: Unpack[AllOptions]) -> DataFrame: ...
def async_map(
    data: RDD[Any] | DataFrame,
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
    log_interval: float = 30.0,
    stats: AsyncStats | None = None,
) -> Any:
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
    concurrency : int, optional
        Calls that a task makes at once; `capacity` if left out. With results in order, a capacity of several times the
        concurrency lets calls go on behind one that is slow.
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
        its error in ``stats.skipped_records``, as many as ``stats.kept_limit`` says; or ``on_error(record, error)``
        gives its result.
    on_timeout : callable, optional
        ``on_timeout(record)`` gives the result of a record whose time ran out.
    deadline : float, optional
        Seconds for a whole task.
    threads : int, optional
        Size of the pool for a plain function; by default `concurrency`, at most 32. A thread cannot be cancelled: a
        call that ran out of time keeps its thread until it returns.
    close_timeout : float, default 5
        Seconds that cancelled calls, then `close`, then tasks that were left behind may take at the end; and that a
        call which ran out of time, and does not end when it is cancelled, keeps its place.
    event_loop : {"auto", "asyncio", "uvloop"}, default "auto"
        What runs the calls; ``"auto"`` is uvloop if it is installed.
    log_interval : float, default 30
        Seconds between lines about its progress in a task's log, the stderr of the executor; 0 for none. They go to the
        logger ``flinkbuf`` at level INFO, or straight to stderr in a worker where nobody has configured that logger, or
        given the root logger a handler. Nothing is changed of the logging itself.
    stats : AsyncStats, optional
        On the driver; every task that ends adds its counts, also if it is run again. A summary of each goes to the
        driver's logger ``flinkbuf``, at level INFO, in any case.

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
    if rate_limit_scope not in ("task", "job"):
        raise ValueError(f"rate_limit_scope must be 'task' or 'job', got {rate_limit_scope!r}")
    if stats is not None and not isinstance(stats, AsyncStats):
        raise TypeError(f"stats must be an fb.async_io.AsyncStats(), got {stats!r}")
    options = AsyncOptions(
        capacity=capacity,
        concurrency=concurrency,
        timeout=timeout,
        ordered=ordered,
        retry=retry,
        open=open,
        close=close,
        flat=flat,
        key=_as_key(key),
        rate_limit=rate_limit,
        batch_size=batch_size,
        batch_timeout=batch_timeout,
        on_error=on_error,
        on_timeout=on_timeout,
        deadline=deadline,
        threads=threads,
        close_timeout=close_timeout,
        event_loop=event_loop,
        log_interval=log_interval,
    )
    if rate_limit is not None and rate_limit_scope == "job":
        options = replace(options, rate_limit=rate_limit / _tasks_at_once(data))
    as_function(func, options)  # what does not fit fails here, not in a task
    context = context_of(data)
    if context is not None:
        check_workers(context)
    report = Report.to(context, stats if stats is not None else AsyncStats())
    if not isinstance(data, RDD):
        return map_frame(data, func, options, schema, report)
    if schema is not None:
        raise ValueError("schema= is for DataFrames; what the function returns becomes a record of the RDD as it is")
    made = data.mapPartitions(shipped(RecordTask(func, options, report, data.getNumPartitions())))
    return declare_order(made, is_unordered=not ordered)


@dataclass(frozen=True)
class RecordTask:
    """The body of one Spark task over an RDD, pickled to where it runs."""

    func: Any
    options: AsyncOptions
    report: Report
    partition_count: int

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the results for the records of a Spark partition."""
        context = call_context(self.partition_count)
        stats = self.report.new_stats()
        operator = AsyncOperator(self.func, self.options, context=context, stats=stats, log=log_in_task)
        yield from self.report.following(operator, operator.run(records), self.options.log_interval)


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
            "rate_limit_scope='job' needs to know how many tasks run at once, which this session does not tell; divide "
            "the limit yourself and leave rate_limit_scope out"
        ) from error
