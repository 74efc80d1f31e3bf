"""What a user's function derives from: maps, filters, reductions, keys, partitioners, sources and sinks.

Wherever a function class is asked for, a plain callable of the same arguments does, but for aggregates and for what
has two inputs. Process functions, window functions and asynchronous functions have files of their own.
Flink: org.apache.flink.api.common.functions; PyFlink: datastream/functions.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic

from flinkbuf.types.type_parameters import ACC, IN, IN1, IN2, OUT, T1, T2, T

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024  # PyFlink's is one, too: those that derive from it have abstract methods
    """What every function of a user is: opened once in each subtask before its first record, closed after its last.

    A function is copied for each subtask, so it may keep what it likes in itself; what a subtask's copy gathers is
    neither seen by the others nor kept over a restart: that is what state is for. Flink: RichFunction.
    """

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027
        """Get ready; the context tells which subtask this is and gives state.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Longest(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.longest = ""
        ...     def map(self, value):
        ...         self.longest = max(self.longest, value, key=len)
        ...         return self.longest
        >>> env.from_collection(["to", "question", "be"]).map(Longest()).execute_and_collect(limit=3)
        ['to', 'question', 'question']
        """

    def close(self) -> None:  # noqa: B027
        """Free what `open` took; called after a failure too.

        Examples
        --------
        >>> import sqlite3
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Asked(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.database = sqlite3.connect(":memory:")
        ...     def map(self, value):
        ...         return self.database.execute("select upper(?)", (value,)).fetchone()[0]
        ...     def close(self):
        ...         self.database.close()
        >>> env.from_collection(["to", "be"]).map(Asked()).execute_and_collect(limit=2)
        ['TO', 'BE']
        """


class MapFunction(Function, Generic[IN, OUT]):
    """One result for each record. Flink's ``MapFunction``.

    Examples
    --------
    >>> class Doubled(MapFunction):
    ...     def map(self, value):
    ...         return 2 * value
    >>> Doubled().map(4)
    8
    """

    if TYPE_CHECKING:  # so that a lambda and an object of this class need one overload, which checkers infer types by

        def __call__(self, value: IN) -> OUT: ...

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Return the result; None is one too."""


class MapBatchFunction(Function):
    """A batch of columns for each batch of columns, for ``DataStream.map_batches``; Flink has none.

    Examples
    --------
    >>> class Doubled(MapBatchFunction):
    ...     def map_batch(self, batch):
    ...         return {"n": 2 * batch["n"].to_numpy()}
    """

    @abstractmethod
    def map_batch(self, batch: Any) -> object:
        """Return a batch, or an iterable of batches, or None: nothing comes of this one."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record. Flink's ``FlatMapFunction``.

    Examples
    --------
    >>> class Words(FlatMapFunction):
    ...     def flat_map(self, value):
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    if TYPE_CHECKING:

        def __call__(self, value: IN) -> Iterable[OUT]: ...

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT]:
        """Yield the results, or return something that has them; None is no such thing."""


class FilterFunction(Function, Generic[IN]):
    """Keeps some of the records. Flink's ``FilterFunction``.

    Examples
    --------
    >>> class Late(FilterFunction):
    ...     def filter(self, value):
    ...         return value > 15
    >>> [delay for delay in (3, 20) if Late().filter(delay)]
    [20]
    """

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Return something true for a record that goes on."""


class ReduceFunction(Function, Generic[T]):
    """Makes one value of two of the same type, in any grouping. Flink's ``ReduceFunction``.

    Examples
    --------
    >>> class Longest(ReduceFunction):
    ...     def reduce(self, value1, value2):
    ...         return max(value1, value2, key=len)
    >>> Longest().reduce("JFK", "Newark")
    'Newark'
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Return both in one; `value1` came first."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Gathers values in an accumulator, of which a result is made. Flink's ``AggregateFunction``.

    Examples
    --------
    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...     def merge(self, acc_a, acc_b):
    ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    >>> mean = Mean()
    >>> mean.get_result(mean.merge(mean.add(2, mean.create_accumulator()), (4, 1)))
    3.0
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return an accumulator of no values."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with one value more; it may be changed in place."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return what the accumulator says; it may be asked again after further values."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Return one accumulator of the values of both; either may be used again for it."""


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One result for each record of two streams. Flink's ``CoMapFunction``.

    Examples
    --------
    >>> class InMinutes(CoMapFunction):
    ...     def map1(self, value):
    ...         return value
    ...     def map2(self, value):
    ...         return 60 * value
    >>> InMinutes().map1(90), InMinutes().map2(2)
    (90, 120)
    """

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Return the result for a record of the first stream; None: there is none."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Return the result for a record of the second stream; None: there is none."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each record of two streams. Flink's ``CoFlatMapFunction``.

    Examples
    --------
    >>> class Codes(CoFlatMapFunction):
    ...     def flat_map1(self, value):
    ...         yield value.upper()
    ...     def flat_map2(self, value):
    ...         return value.split(",")
    >>> list(Codes().flat_map1("jfk")), Codes().flat_map2("LGA,EWR")
    (['JFK'], ['LGA', 'EWR'])
    """

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Yield or return the results for a record of the first stream; None: there are none."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Yield or return the results for a record of the second stream; None: there are none."""


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """One result for each pair of records that a join puts together. Flink's ``JoinFunction``.

    Examples
    --------
    >>> class Named(JoinFunction):
    ...     def join(self, first, second):
    ...         return first[0], second[1]
    >>> Named().join(("UA", 1545), ("UA", "United"))
    ('UA', 'United')
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Return the result for a record of the first stream and one of the second; None is one too."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each pair of records that a join puts together. Flink's ``FlatJoinFunction``.

    Examples
    --------
    >>> class OnTime(FlatJoinFunction):
    ...     def join(self, first, second):
    ...         if first[1] >= second[1]:
    ...             yield first[0]
    >>> list(OnTime().join(("UA", 10), ("UA", 9))), list(OnTime().join(("UA", 10), ("UA", 11)))
    (['UA'], [])
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Yield or return the results for a record of the first stream and one of the second; None: there are none."""


class CoGroupFunction(Function, Generic[T1, T2, OUT]):
    """Any number of results for the records of one key in one window of two streams. Flink's ``CoGroupFunction``.

    Examples
    --------
    >>> class Unmatched(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         return [] if second else first
    >>> Unmatched().co_group([("UA", 1545)], [])
    [('UA', 1545)]
    """

    @abstractmethod
    def co_group(self, first: list[T1], second: list[T2]) -> Iterable[OUT] | None:
        """Yield or return the results for all records of both streams; one of the lists may be empty."""


class KeySelector(Function, Generic[IN, OUT]):
    """Takes the key out of a record: the same for the same record, in every process. Flink's ``KeySelector``.

    Examples
    --------
    >>> class Carrier(KeySelector):
    ...     def get_key(self, value):
    ...         return value[:2]
    >>> Carrier().get_key("UA1545")
    'UA'
    """

    if TYPE_CHECKING:

        def __call__(self, value: IN) -> OUT: ...

    @abstractmethod
    def get_key(self, value: IN) -> OUT:
        """Return the key."""


class NullByteKeySelector(KeySelector[object, int]):
    """One key for all records. Flink's ``NullByteKeySelector``."""

    def get_key(self, value: object) -> int:
        """Return 0."""
        return 0


class Partitioner(Function, Generic[IN]):
    """Decides which subtask gets a record. Flink's ``Partitioner``.

    Examples
    --------
    >>> class ByRange(Partitioner):
    ...     def partition(self, key, num_partitions):
    ...         return min(key // 100, num_partitions - 1)
    >>> [ByRange().partition(key, 3) for key in (7, 150, 900)]
    [0, 1, 2]
    """

    @abstractmethod
    def partition(self, key: IN, num_partitions: int) -> int:
        """Return the index of a subtask, from 0 and below `num_partitions`."""


class SourceFunction(Function):
    """Makes records until it has no more or is cancelled; in one subtask. Flink's ``SourceFunction``.

    PyFlink wraps a Java object here; this one is derived from, or given any iterable or function without arguments
    that makes one.

    Parameters
    ----------
    source_func : iterable or callable, optional
        Where the records come from, if `run` is not overridden.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> class Countdown(SourceFunction):
    ...     def run(self, ctx):
    ...         for number in (3, 2, 1):
    ...             ctx.collect(number)
    >>> env.add_source(Countdown()).execute_and_collect(limit=3)
    [3, 2, 1]
    """

    def __init__(self, source_func: Iterable[object] | Callable[[], Iterable[object]] | None = None) -> None:
        self.source_func = source_func
        self._is_running = True

    def run(self, ctx: Any) -> None:
        """Emit records with ``ctx.collect(value)`` or ``ctx.collect_with_timestamp(value, timestamp)``, then return."""
        made = self.source_func() if callable(self.source_func) else self.source_func
        if made is None:
            raise TypeError(f"{type(self).__name__} needs a method run(ctx), or something to take its records from")
        for value in made:
            if not self._is_running:
                return
            ctx.collect(value)

    def cancel(self) -> None:
        """Let `run` return soon; called from another thread.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Ticks(SourceFunction):
        ...     is_running = True
        ...     def run(self, ctx):
        ...         while self.is_running:
        ...             ctx.collect("tick")
        ...     def cancel(self):
        ...         self.is_running = False
        >>> env.add_source(Ticks()).execute_and_collect(limit=2)  # cancels it when there are two
        ['tick', 'tick']
        """
        self._is_running = False


class ParallelSourceFunction(SourceFunction):
    """A source function that runs in every subtask. Flink's ``ParallelSourceFunction``."""


class SinkFunction(Function, Generic[IN]):
    """Takes the records at the end of a stream. Flink's ``SinkFunction``.

    PyFlink wraps a Java object here; this one is derived from, or given a function of one record.

    Parameters
    ----------
    sink_func : callable, optional
        What is called with each record, if `invoke` is not overridden.

    Examples
    --------
    >>> class Shown(SinkFunction):
    ...     def invoke(self, value):
    ...         print("got", value)
    >>> Shown().invoke(4)
    got 4
    """

    def __init__(self, sink_func: Callable[[IN], object] | None = None) -> None:
        self.sink_func = sink_func

    def invoke(self, value: IN) -> None:
        """Take one record."""
        if self.sink_func is None:
            raise TypeError(f"{type(self).__name__} needs a method invoke(value), or a function to call")
        self.sink_func(value)


class Lifecycles:
    """Several things that are opened in order and closed the other way round."""

    def __init__(self, *members: Any) -> None:
        self.members = members

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open each."""
        for member in self.members:
            member.open(runtime_context)

    def close(self) -> None:
        """Close each, also after one of them failed to; the first error goes on."""
        first: BaseException | None = None
        for member in reversed(self.members):
            try:
                member.close()
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first


def as_call(function: Any, kind: type[Function], method: str) -> Callable[..., object]:
    """Return what an operator calls: `method` of an instance of `kind`, or the callable itself."""
    if not isinstance(function, kind):
        return function
    bound: Callable[..., object] = getattr(function, method)
    return bound


class SelectorCall:
    """A key selector or partitioner that wants to be opened before it is called.

    Who calls it opens it with its runtime context; who cannot lets the first call do so, without one.
    """

    def __init__(self, function: Function, method: str) -> None:
        self.function = function
        self.method = getattr(function, method)
        self.is_open = False

    def open(self, runtime_context: Any) -> None:
        """Open the user's function, once."""
        if not self.is_open:
            self.is_open = True
            self.function.open(runtime_context)

    def close(self) -> None:
        """Close the user's function if it was opened."""
        if self.is_open:
            self.is_open = False
            self.function.close()

    def __call__(self, *arguments: object) -> object:
        """Call the user's method."""
        if not self.is_open:
            self.open(None)
        return self.method(*arguments)


def has_lifecycle(function: object) -> bool:
    """Tell whether the class of a `Function` has an open or close of its own."""
    if not isinstance(function, Function):
        return False
    return type(function).open is not Function.open or type(function).close is not Function.close


def as_selector(function: Any, kind: type[Function] = KeySelector, method: str = "get_key") -> Callable[..., Any]:
    """Return what is called with a record (for a partitioner: with key and count) at each of its two ends.

    It is called on every record, so a function without a life of its own is called directly.
    """
    if not isinstance(function, kind):
        return function
    return SelectorCall(function, method) if has_lifecycle(function) else getattr(function, method)
