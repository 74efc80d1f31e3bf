"""What an async operator calls and how: its options, and one face for coroutines, functions and AsyncFunctions."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from operator import itemgetter
from typing import Any

from flinkbuf.async_io.retry import as_retry
from flinkbuf.errors import FlinkbufError

_DEFAULT_THREADS = 32


@dataclass(frozen=True)
class CallContext:
    """Where a call runs; given to ``open`` if it takes an argument, and to a function with a parameter ``context``.

    Attributes
    ----------
    partition : int
        Index of the Spark partition, from 0.
    partition_count : int
        How many partitions there are; 1 outside Spark, 0 for a DataFrame, which does not tell.
    task_attempt : int
        How often Spark has started this task before, from 0.
    stage : int
        Spark's number of the stage.
    record_number : int
        The record's place in the partition, from 0; -1 for `open`, and the first one's in a batch.
    attempt : int
        Which call for this record it is, from 1; 0 for `open`.
    """

    partition: int = 0
    partition_count: int = 1
    task_attempt: int = 0
    stage: int = 0
    record_number: int = -1
    attempt: int = 0

    # What PyFlink's functions ask of the RuntimeContext in open().

    def get_index_of_this_subtask(self) -> int:
        """Return `partition`, under PyFlink's name."""
        return self.partition

    def get_number_of_parallel_subtasks(self) -> int:
        """Return `partition_count`, under PyFlink's name."""
        return self.partition_count

    def get_attempt_number(self) -> int:
        """Return `task_attempt`, under PyFlink's name."""
        return self.task_attempt

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return `partition_count`: there is no other parallelism to come."""
        return self.partition_count

    def get_task_name(self) -> str:
        """Return a name for messages."""
        return f"async_map stage {self.stage}"

    def get_task_name_with_subtasks(self) -> str:
        """Return a name for messages that tells the partition, counted from 1 as Flink does."""
        return f"{self.get_task_name()} ({self.partition + 1}/{self.partition_count})#{self.task_attempt}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return the default: a Spark job has no such parameters."""
        return default_value


@dataclass(frozen=True, kw_only=True)
class AsyncMapOptions:
    """What few calls of `flinkbuf.async_map` say.

    Parameters
    ----------
    concurrency : int, optional
        Calls that a task makes at once; the capacity if left out. With results in order, a capacity of several times
        the concurrency lets calls go on behind one that is slow.
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
    on_timeout : callable, optional
        ``on_timeout(record)`` gives the result of a record whose time ran out.
    deadline : float, optional
        Seconds for a whole task.
    threads : int, optional
        Size of the pool for a plain function; by default the concurrency, at most 32. A thread cannot be cancelled: a
        call that ran out of time keeps its thread until it returns.
    close_timeout : float, default 5
        Seconds that cancelled calls, then `close`, then tasks that were left behind may take at the end; and that a
        call which ran out of time, and does not end when it is cancelled, keeps its place.
    event_loop : {"auto", "asyncio", "uvloop"}, default "auto"
        What runs the calls; ``"auto"`` is uvloop if it is installed.
    log_interval : float, default 30
        Seconds between lines about its progress in a task's log, the stderr of the executor; 0 for none. They go to the
        logger ``flinkbuf`` at level INFO, or straight to stderr in a worker where neither that logger is configured
        nor the root logger has a handler. Nothing is changed of the logging itself.

    Raises
    ------
    TypeError, ValueError
        If a value does not fit.

    Examples
    --------
    >>> AsyncMapOptions(rate_limit=100, rate_limit_scope="job").batch_timeout
    0.05
    """

    concurrency: int | None = None
    flat: bool = False
    key: str | int | Callable[..., object] | None = None
    rate_limit: float | None = None
    rate_limit_scope: str = "task"
    batch_size: int | None = None
    batch_timeout: float = 0.05
    on_timeout: Callable[..., object] | None = None
    deadline: float | None = None
    threads: int | None = None
    close_timeout: float = 5.0
    event_loop: str = "auto"
    log_interval: float = 30.0

    def __post_init__(self) -> None:
        self._check_counts("concurrency", "batch_size", "threads")
        self._check_limits("rate_limit", "deadline")
        for name in ("batch_timeout", "close_timeout", "log_interval"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise ValueError(f"{name} must be a number of 0 seconds or more, got {value!r}")
        self._check_functions("on_timeout")
        is_field = isinstance(self.key, (str, int)) and not isinstance(self.key, bool)
        if self.key is not None and not is_field and not callable(self.key):
            raise TypeError(f"key must be a function, or a field's name or index, got {self.key!r}")
        self._check_plain("key", "on_timeout")
        if self.event_loop not in ("auto", "asyncio", "uvloop"):
            raise ValueError(f"event_loop must be 'auto', 'asyncio' or 'uvloop', got {self.event_loop!r}")
        if self.rate_limit_scope not in ("task", "job"):
            raise ValueError(f"rate_limit_scope must be 'task' or 'job', got {self.rate_limit_scope!r}")

    def _check_counts(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")

    def _check_limits(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"{name} must be a number of more than 0, or None for no limit; got {value!r}")

    def _check_functions(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"{name} must be callable, got {getattr(self, name)!r}")

    def _check_plain(self, *names: str) -> None:
        for name in names:
            if _is_kind(inspect.iscoroutinefunction, getattr(self, name)):
                raise TypeError(f"{name} must be a plain function: nothing awaits what it gives")


@dataclass(frozen=True, kw_only=True)
class AsyncOptions(AsyncMapOptions):
    """The options of an async operator, checked; `flinkbuf.async_map` describes the ones that it has of its own."""

    key: Callable[..., object] | None = None
    capacity: int = 100
    timeout: float | None = None
    ordered: bool = True
    retry: Any = None
    open: Callable[..., object] | None = None
    close: Callable[..., object] | None = None
    on_error: Any = "raise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.key, (str, int)):
            object.__setattr__(self, "key", itemgetter(self.key))
        if self.capacity is None:
            raise ValueError("capacity must be a whole number of at least 1, got None")
        self._check_counts("capacity")
        self._check_limits("timeout")
        for name in ("batch_size", "concurrency"):
            value = getattr(self, name)
            if value is not None and value > self.capacity:
                raise ValueError(f"{name} {value} exceeds the capacity of {self.capacity} records")
        if self.on_error not in ("raise", "skip") and not callable(self.on_error):
            raise ValueError(f"on_error must be 'raise', 'skip' or a function (record, error), got {self.on_error!r}")
        self._check_functions("open", "close")
        self._check_plain("on_error")
        object.__setattr__(self, "retry", as_retry(self.retry))

    @property
    def thread_count(self) -> int:
        """Size of the pool for a plain function."""
        return self.threads or min(self.concurrency or self.capacity, _DEFAULT_THREADS)


@dataclass
class Function:
    """The user's function in the one form that the operator calls.

    Attributes
    ----------
    kind : {"coroutine", "thread", "callback"}
        How a call runs: on the loop, on a pool thread, or by itself until it completes a `ResultFuture`.
    call : callable
        ``(record)``, or ``(record, session)`` if there is an `open`.
    is_flat : bool
        Each call gives an iterable of results.
    wants_context : bool
        It has a parameter ``context``.
    """

    kind: str
    call: Callable[..., object]
    open: Callable[..., object] | None = None
    close: Callable[..., object] | None = None
    on_timeout: Callable[..., object] | None = None
    is_flat: bool = False
    has_session: bool = False
    wants_context: bool = False
    name: str = field(default="", compare=False)


def as_function(func: object, options: AsyncOptions) -> Function:
    """Recognise a coroutine function, a plain function or an object with ``async_invoke`` (PyFlink's AsyncFunction).

    Raises
    ------
    TypeError
        If it is none of these, or takes another number of arguments than it would be given.
    """
    if isinstance(func, type) and hasattr(func, "async_invoke"):
        raise TypeError(f"{func.__qualname__} is a class; give an object of it")
    if hasattr(func, "async_invoke"):
        return _from_async_function(func, func.async_invoke, options)
    if not callable(func):
        raise TypeError(f"a coroutine function, a function or an AsyncFunction is needed, got {func!r:.80}")
    if _is_kind(inspect.isasyncgenfunction, func):
        raise TypeError(f"{_name(func)} is an asynchronous generator; return a list of results, with flat=True")
    kind = "coroutine" if _is_kind(inspect.iscoroutinefunction, func) else "thread"
    parameters = _parameters(func)
    function = Function(
        kind,
        func,
        options.open,
        options.close,
        options.on_timeout,
        options.flat,
        has_session=options.open is not None,
        wants_context="context" in parameters,
        name=_name(func),
    )
    _check_arguments(func, function)
    _check_handler("on_timeout", options.on_timeout, "record")
    if callable(options.on_error):
        _check_handler("on_error", options.on_error, "record", "error")
    if function.has_session:
        _check_handler("close", options.close, "session")
    return function


def _from_async_function(func: object, invoke: Callable[..., object], options: AsyncOptions) -> Function:
    """Take open, async_invoke, timeout and close of a PyFlink AsyncFunction; results are lists."""
    if _is_kind(inspect.iscoroutinefunction, invoke):
        kind = "coroutine"
    elif len(_parameters(invoke)) >= 2:
        kind = "callback"  # as in Java: async_invoke(value, result_future)
    else:
        raise TypeError(
            f"{type(func).__qualname__}.async_invoke must be a coroutine function, or take (value, result_future)"
        )
    if options.open is not None or options.close is not None:
        raise ValueError(f"{type(func).__qualname__} has its own open() and close(); leave open= and close= out")
    on_timeout = options.on_timeout or getattr(func, "timeout", None)
    if _is_kind(inspect.iscoroutinefunction, on_timeout):
        raise TypeError(f"{type(func).__qualname__}.timeout must be a plain function")
    return Function(
        kind,
        invoke,
        getattr(func, "open", None),
        getattr(func, "close", None),
        on_timeout,
        True,
        wants_context="context" in _parameters(invoke),
        name=type(func).__qualname__,
    )


def _is_kind(is_kind: Callable[[object], bool], func: object) -> bool:
    func = _without_partial(func)
    return is_kind(func) or is_kind(getattr(func, "__call__", None))  # noqa: B004  # of what kind it is, not whether


def _name(func: object) -> str:
    func = _without_partial(func)
    name: str = getattr(func, "__qualname__", type(func).__qualname__)
    return name


def _without_partial(func: object) -> object:
    while isinstance(func, functools.partial):
        func = func.func
    return func


def _parameters(func: Callable[..., object]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # a builtin that does not tell
        return {}


def _check_arguments(func: Callable[..., object], function: Function) -> None:
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return
    given = ["record", "session"] if function.has_session else ["record"]
    named = {"context": None} if function.wants_context else {}
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        why = "open= makes a session" if function.has_session else "there is no open= that makes a session"
        raise TypeError(
            f"{function.name}{signature} would be called with ({', '.join(given)}), as {why}: {error}"
        ) from None


def _check_handler(name: str, func: Callable[..., object] | None, *given: str) -> None:
    if func is None:
        return
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):  # a builtin that does not tell
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise TypeError(f"{name}{signature} would be called with ({', '.join(given)}): {error}") from None


class ResultFuture:
    """What an ``async_invoke(value, result_future)`` completes, from any thread, exactly once.

    References
    ----------
    Flink ``ResultFuture``. Other than there, a second completion is an error, not silence.
    """

    def __init__(
        self, on_complete: Callable[[ResultFuture, object, BaseException | None], None], work: Any, record_text: str
    ) -> None:
        self.work = work
        self._on_complete = on_complete
        self._record_text = record_text
        self._lock = threading.Lock()
        self._is_complete = False

    def complete(self, results: object) -> None:
        """Give the results for the record: an iterable of none, one or many, or a function that gives one.

        A function is called on the thread of the event loop.
        """
        self._once(results, None)

    def complete_exceptionally(self, error: BaseException) -> None:
        """Say that the call failed."""
        self._once(None, error)

    def _once(self, results: object, error: BaseException | None) -> None:
        with self._lock:
            is_second, self._is_complete = self._is_complete, True
        if is_second:
            error = CompletedTwiceError(
                f"the result future of {self._record_text} was completed twice; complete it once"
            )
        self._on_complete(self, results, error)
        if is_second:
            assert error is not None
            raise error


class CompletedTwiceError(FlinkbufError):
    """A result future was completed twice; the task fails, and so does the second `complete`."""
