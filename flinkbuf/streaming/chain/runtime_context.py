"""What a user's function is given in open(): which subtask it is in, metrics, and state."""

from __future__ import annotations

from typing import Any, TypeVar

from flinkbuf.metrics import MetricGroup
from flinkbuf.streaming.chain.accumulators import Accumulator, AccumulatorRegistry, DoubleCounter, Histogram, IntCounter
from flinkbuf.streaming.chain.distributed_cache import DistributedCache
from flinkbuf.streaming.chain.function_metrics import FunctionMetricGroup
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.types.type_parameters import A, K, R, T, V

AccumulatorT = TypeVar("AccumulatorT", bound=Accumulator)


class RuntimeContext(KeyedStateStore):
    """The surroundings of a user's function. PyFlink's ``RuntimeContext``.

    Parameters
    ----------
    task : TaskInfo
        The subtask.
    settings : ExecutionSettings
        Of the job.
    metrics : MetricGroup
        Of the operator.
    keyed_state : KeyedStateBackend or None
        None: the stream is not keyed.
    operator_state : OperatorStateBackend
        Of the operator.
    accumulators : AccumulatorRegistry, optional
        Of the task.

    Examples
    --------
    >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> class Placed(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.place = runtime_context.get_index_of_this_subtask()
    ...     def map(self, value):
    ...         return self.place, value
    >>> env.from_collection(["a"]).map(Placed()).execute_and_collect(limit=1)
    [(0, 'a')]
    """

    def __init__(
        self,
        task: TaskInfo,
        settings: ExecutionSettings,
        metrics: MetricGroup,
        keyed_state: KeyedStateBackend | None,
        operator_state: OperatorStateBackend,
        accumulators: AccumulatorRegistry | None = None,
    ) -> None:
        self._task = task
        self._settings = settings
        self._metrics = FunctionMetricGroup(metrics)
        self._keyed_state = keyed_state
        self._operator_state = operator_state
        self._accumulators = AccumulatorRegistry() if accumulators is None else accumulators
        # ColumnStates of a function over batches, from its operator: it has no others by key, as it has many keys.
        self.column_states: Any = None

    def get_task_name(self) -> str:
        """Return the task's name, such as "Source: numbers -> Map".

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Told(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.name = runtime_context.get_task_name()
        ...         self.place = runtime_context.get_task_name_with_subtasks()  # and the attempt
        ...     def map(self, value):
        ...         return self.name, self.place
        >>> env.from_collection([1]).map(Told()).name("told").disable_chaining().execute_and_collect(limit=1)
        [('told', 'told (1/1)#0')]
        """
        return self._task.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return how many subtasks there are.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Share(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.share = 60 / runtime_context.get_number_of_parallel_subtasks()  # of 60 calls a minute
        ...         self.most = runtime_context.get_max_number_of_parallel_subtasks()  # so many key groups
        ...     def map(self, value):
        ...         return self.share, self.most
        >>> shares = env.from_collection([1, 2]).rebalance().map(Share()).set_parallelism(2).set_max_parallelism(8)
        >>> list(shares.execute_and_collect())
        [(30.0, 8), (30.0, 8)]
        """
        return self._task.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return how many subtasks there could be."""
        return self._task.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return which subtask this is, from 0.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Numbered(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.step = runtime_context.get_number_of_parallel_subtasks()
        ...         self.next = runtime_context.get_index_of_this_subtask()
        ...     def map(self, value):
        ...         self.next += self.step
        ...         return self.next - self.step, value  # no two subtasks give the same number
        >>> numbered = env.from_collection("abcd").rebalance().map(Numbered()).set_parallelism(2)
        >>> sorted(number for number, _ in numbered.execute_and_collect())
        [0, 1, 2, 3]
        """
        return self._task.subtask_index

    def get_attempt_number(self) -> int:
        """Return how often this subtask was started before.

        Examples
        --------
        >>> from flinkbuf.common import RestartStrategies
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Unsteady(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.attempt = runtime_context.get_attempt_number()
        ...     def map(self, value):
        ...         if self.attempt == 0: raise ConnectionError("try again")
        ...         return value, self.attempt
        >>> env = env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1))
        >>> list(env.from_collection(["a"]).map(Unsteady()).execute_and_collect())
        [('a', 1)]
        """
        return self._task.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """Return name and place, such as "Map (1/4)#0"."""
        return self._task.task_name_with_subtask

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global parameter of the job.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.get_config().set_global_job_parameters({"unit": "km"})
        >>> class InUnit(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.unit = runtime_context.get_job_parameter("unit", "miles")
        ...         self.digits = int(runtime_context.get_job_parameter("digits", "1"))
        ...     def map(self, value):
        ...         return f"{value:.{self.digits}f} {self.unit}"
        >>> env.from_collection([3.14]).map(InUnit()).execute_and_collect(limit=1)
        ['3.1 km']
        """
        return self._settings.job_parameters.get(key, default_value)

    def get_distributed_cache(self) -> DistributedCache:
        """Return what finds files that were registered by ``env.register_cached_file``; Flink's, not PyFlink's.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "names.txt")
        >>> _ = path.write_text("UA United")
        >>> env.register_cached_file(str(path), "names")
        >>> class Named(MapFunction):
        ...     def open(self, runtime_context):
        ...         lines = runtime_context.get_distributed_cache().get_file("names").read_text().splitlines()
        ...         self.names = dict(line.split() for line in lines)
        ...     def map(self, value):
        ...         return self.names.get(value)
        >>> env.from_collection(["UA"]).map(Named()).execute_and_collect(limit=1)
        ['United']
        >>> folder.cleanup()
        """
        return DistributedCache(self._settings.cached_files)

    def get_metrics_group(self) -> FunctionMetricGroup:
        """Return where to register metrics.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Watched(MapFunction):
        ...     def open(self, runtime_context):
        ...         group = runtime_context.get_metrics_group().add_group("words")
        ...         self.seen, self.lengths = group.counter("seen"), group.distribution("lengths")
        ...     def map(self, value):
        ...         self.seen.inc()
        ...         self.lengths.update(len(value))
        ...         return value, self.seen.get_count()
        >>> env.from_collection(["to", "be"]).map(Watched()).execute_and_collect(limit=2)
        [('to', 1), ('be', 2)]
        """
        return self._metrics

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Have an accumulator added up over all subtasks, for ``JobExecutionResult.get_accumulator_result(name)``.

        Raises
        ------
        ValueError
            Another function of this task has an accumulator of that name.

        Examples
        --------
        >>> from flinkbuf.common.accumulators import IntMaximum
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Watched(MapFunction):
        ...     def open(self, runtime_context):
        ...         runtime_context.add_accumulator("longest", IntMaximum())
        ...         self.longest = runtime_context.get_accumulator("longest")
        ...     def map(self, value):
        ...         self.longest.add(len(value))
        >>> _ = env.from_collection(["to", "question"]).map(Watched()).add_sink(lambda value: None)
        >>> env.execute("words").get_accumulator_result("longest")
        8
        """
        self._accumulators.add(name, accumulator)

    def get_accumulator(self, name: str) -> Accumulator | None:
        """Return this task's accumulator of that name; None: nobody has added it."""
        return self._accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """Return the counter of that name, made if it is not there.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Watched(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_int_counter("seen")
        ...         self.kilometres = runtime_context.get_double_counter("kilometres")
        ...         self.stops = runtime_context.get_histogram("stops")
        ...     def map(self, value):
        ...         self.seen.add(1); self.kilometres.add(value[0]); self.stops.add(value[1])
        >>> _ = env.from_collection([(1.5, 0), (2.25, 3), (4.0, 0)]).map(Watched()).add_sink(lambda value: None)
        >>> result = env.execute("ways")
        >>> [result.get_accumulator_result(name) for name in ("seen", "kilometres", "stops")]
        [3, 7.75, {0: 2, 3: 1}]
        """
        return self._accumulator(name, IntCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return the counter of that name, made if it is not there."""
        return self._accumulator(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram:
        """Return the histogram of that name, made if it is not there."""
        return self._accumulator(name, Histogram)

    def _accumulator(self, name: str, kind: type[AccumulatorT]) -> AccumulatorT:
        accumulator = self._accumulators.get(name)
        if accumulator is None:
            accumulator = kind()
            self._accumulators.add(name, accumulator)
        if not isinstance(accumulator, kind):
            raise TypeError(f"The accumulator '{name}' is of kind {type(accumulator).__name__}, not {kind.__name__}")
        return accumulator

    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Return the value state of that name, the same object each time.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import ValueStateDescriptor
        >>> class FirstOnly(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))
        ...     def process_element(self, value, ctx):
        ...         if not self.seen.value():
        ...             self.seen.update(True)
        ...             yield value
        >>> words = env.from_collection(["to", "be", "to"]).key_by(lambda word: word)
        >>> words.process(FirstOnly()).execute_and_collect(limit=2)
        ['to', 'be']
        """
        return self._keyed(state_descriptor, ValueStateDescriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the list state of that name, the same object each time.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import ListStateDescriptor
        >>> class Before(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.before = runtime_context.get_list_state(ListStateDescriptor("before", Types.STRING()))
        ...     def process_element(self, value, ctx):
        ...         yield value, list(self.before)
        ...         self.before.add(value)
        >>> words = env.from_collection(["to", "question", "be"]).key_by(len)
        >>> words.process(Before()).execute_and_collect(limit=3)
        [('to', []), ('question', []), ('be', ['to'])]
        """
        return self._keyed(state_descriptor, ListStateDescriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the map state of that name, the same object each time.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import MapStateDescriptor
        >>> class Routes(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         counts = MapStateDescriptor("counts", Types.STRING(), Types.INT())
        ...         self.counts = runtime_context.get_map_state(counts)
        ...     def process_element(self, value, ctx):
        ...         self.counts[value[1]] = (self.counts[value[1]] or 0) + 1
        ...         yield value[0], dict(self.counts.items())
        >>> flights = env.from_collection([("UA", "JFK"), ("AA", "JFK"), ("UA", "JFK")])
        >>> flights.key_by(lambda flight: flight[0]).process(Routes()).execute_and_collect(limit=3)
        [('UA', {'JFK': 1}), ('AA', {'JFK': 1}), ('UA', {'JFK': 2})]
        """
        return self._keyed(state_descriptor, MapStateDescriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Return the reducing state of that name, the same object each time.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import ReducingStateDescriptor
        >>> class Longest(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         longest = ReducingStateDescriptor("longest", max, Types.INT())
        ...         self.longest = runtime_context.get_reducing_state(longest)
        ...     def process_element(self, value, ctx):
        ...         self.longest.add(value[1])
        ...         yield value[0], self.longest.get()
        >>> delays = env.from_collection([("UA", 5), ("AA", 1), ("UA", 2)]).key_by(lambda delay: delay[0])
        >>> delays.process(Longest()).execute_and_collect(limit=3)
        [('UA', 5), ('AA', 1), ('UA', 5)]
        """
        return self._keyed(state_descriptor, ReducingStateDescriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[A, R]) -> AggregatingState[A, R]:
        """Return the aggregating state of that name, the same object each time.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import AggregatingStateDescriptor
        >>> class Mean(AggregateFunction):
        ...     def create_accumulator(self): return 0, 0
        ...     def add(self, value, accumulator): return accumulator[0] + value, accumulator[1] + 1
        ...     def get_result(self, accumulator): return accumulator[0] / accumulator[1]
        ...     def merge(self, acc_a, acc_b): return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> class MeanDelay(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         mean = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        ...         self.mean = runtime_context.get_aggregating_state(mean)
        ...     def process_element(self, value, ctx):
        ...         self.mean.add(value[1])
        ...         yield value[0], self.mean.get()
        >>> delays = env.from_collection([("UA", 5), ("AA", 1), ("UA", 2)]).key_by(lambda delay: delay[0])
        >>> delays.process(MeanDelay()).execute_and_collect(limit=3)
        [('UA', 5.0), ('AA', 1.0), ('UA', 3.5)]
        """
        return self._keyed(state_descriptor, AggregatingStateDescriptor)

    def get_column_state(self, name: str, schema: object) -> object:
        """Return the state of that name of a `KeyedBatchFunction`, a row of columns for each key; beyond PyFlink.

        Parameters
        ----------
        name : str
        schema : pyarrow schema, DDL, TypeInformation or pyspark StructType
            Names and types of the columns.

        Returns
        -------
        ColumnValueState

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.columns import KeyedBatchFunction
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class FirstSeen(KeyedBatchFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_column_state("seen", "n bigint")
        ...     def process_batch(self, batch, context):
        ...         is_new = self.seen.get(context.keys)["n"].is_null().to_numpy(zero_copy_only=False)
        ...         first = batch.take(context.offsets[:-1][is_new])
        ...         self.seen.put(context.slots[is_new], {"n": first["n"]})
        ...         return first
        >>> rows = env.from_collection([("a", 1), ("b", 5), ("a", 2)]).as_columns("word string, n bigint")
        >>> sorted(rows.key_by("word").process_batches(FirstSeen()).execute_and_collect(limit=2))
        [Row(word='a', n=1), Row(word='b', n=5)]
        """
        if self.column_states is None:
            raise RuntimeError(
                "get_column_state() is for a KeyedBatchFunction, which process_batches() of a keyed column stream "
                "calls; functions of records have get_state() and its like"
            )
        return self.column_states.get(name, schema)

    def get_operator_state_store(self) -> OperatorStateBackend:
        """Return what gives lists and broadcast states of this subtask; beyond PyFlink.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import ListStateDescriptor
        >>> class Recent(MapFunction):  # what it keeps is in checkpoints, though there is no key
        ...     def open(self, runtime_context):
        ...         store = runtime_context.get_operator_state_store()
        ...         self.recent = store.get_list_state(ListStateDescriptor("recent", Types.STRING()))
        ...     def map(self, value):
        ...         self.recent.update([*self.recent.get(), value][-2:])
        ...         return list(self.recent.get())
        >>> env.from_collection(["to", "be", "or"]).map(Recent()).execute_and_collect(limit=3)
        [['to'], ['to', 'be'], ['be', 'or']]
        """
        return self._operator_state

    def _keyed(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, kind):
            raise TypeError(f"expected a {kind.__name__}, got {descriptor!r}")
        if self.column_states is not None:
            raise RuntimeError(
                f"the state {descriptor.name!r} would be that of one key, and a KeyedBatchFunction is called with "
                "many: say get_column_state(name, schema)"
            )
        if self._keyed_state is None:
            raise RuntimeError(
                "This state is only accessible by functions executed on a KeyedStream: call key_by() before the "
                "function that asks for it"
            )
        return self._keyed_state.get_state(descriptor)
