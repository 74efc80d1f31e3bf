"""What a user's function is given in open(): which subtask it is in, metrics, and state."""

from __future__ import annotations

from typing import Any, TypeVar

from flinkbuf.metrics import MetricGroup
from flinkbuf.streaming.accumulators import Accumulator, AccumulatorRegistry, DoubleCounter, Histogram, IntCounter
from flinkbuf.streaming.distributed_cache import DistributedCache
from flinkbuf.streaming.function_metrics import FunctionMetricGroup
from flinkbuf.streaming.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.operator_state import OperatorStateBackend
from flinkbuf.streaming.state import (
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
from flinkbuf.streaming.state_backend import KeyedStateBackend

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

    def get_task_name(self) -> str:
        """Return the task's name, such as "Source: numbers -> Map"."""
        return self._task.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return how many subtasks there are."""
        return self._task.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return how many subtasks there could be."""
        return self._task.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return which subtask this is, from 0."""
        return self._task.subtask_index

    def get_attempt_number(self) -> int:
        """Return how often this subtask was started before."""
        return self._task.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """Return name and place, such as "Map (1/4)#0"."""
        return self._task.task_name_with_subtask

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global parameter of the job."""
        return self._settings.job_parameters.get(key, default_value)

    def get_distributed_cache(self) -> DistributedCache:
        """Return what finds files that were registered by ``env.register_cached_file``; Flink's, not PyFlink's."""
        return DistributedCache(self._settings.cached_files)

    def get_metrics_group(self) -> FunctionMetricGroup:
        """Return where to register metrics."""
        return self._metrics

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Have an accumulator added up over all subtasks, for ``JobExecutionResult.get_accumulator_result(name)``.

        Raises
        ------
        ValueError
            Another function of this task has an accumulator of that name.
        """
        self._accumulators.add(name, accumulator)

    def get_accumulator(self, name: str) -> Accumulator | None:
        """Return this task's accumulator of that name; None: nobody has added it."""
        return self._accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """Return the counter of that name, made if it is not there."""
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

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of that name, the same object each time."""
        return self._keyed(state_descriptor, ValueStateDescriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of that name, the same object each time."""
        return self._keyed(state_descriptor, ListStateDescriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of that name, the same object each time."""
        return self._keyed(state_descriptor, MapStateDescriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of that name, the same object each time."""
        return self._keyed(state_descriptor, ReducingStateDescriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the aggregating state of that name, the same object each time."""
        return self._keyed(state_descriptor, AggregatingStateDescriptor)

    def get_operator_state_store(self) -> OperatorStateBackend:
        """Return what gives lists and broadcast states of this subtask; beyond PyFlink."""
        return self._operator_state

    def _keyed(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, kind):
            raise TypeError(f"expected a {kind.__name__}, got {descriptor!r}")
        if self._keyed_state is None:
            raise RuntimeError(
                "This state is only accessible by functions executed on a KeyedStream: call key_by() before the "
                "function that asks for it"
            )
        return self._keyed_state.get_state(descriptor)
