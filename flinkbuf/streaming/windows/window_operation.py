"""From what a program says about windows to the operator that does it.

PyFlink: WindowOperationDescriptor and the methods of WindowedStream and AllWindowedStream.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.aligned_window_operator import AlignedWindowOperator
from flinkbuf._core.operators.combined_window_operator import CombinedWindowOperator
from flinkbuf._core.operators.session_window_operator import SessionWindowOperator
from flinkbuf._core.operators.window_operator import WindowOperator
from flinkbuf._core.record.plain_function import quickened
from flinkbuf.metrics import Counter, MetricGroup
from flinkbuf.streaming.chain.aggregations import CombiningOperatorFactory, plain_reduce
from flinkbuf.streaming.chain.functions import Function, Lifecycles, ReduceFunction, SelectorCall, as_call
from flinkbuf.streaming.state.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flinkbuf.streaming.windows.assigner import MergingWindowAssigner
from flinkbuf.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from flinkbuf.streaming.windows.evictors import TimestampedValue
from flinkbuf.streaming.windows.merging_window_set import MergingWindowSet
from flinkbuf.streaming.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from flinkbuf.streaming.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkbuf.streaming.windows.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkbuf.streaming.windows.trigger import TriggerResult
from flinkbuf.streaming.windows.triggers import CountTrigger, PurgingTrigger
from flinkbuf.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.functions import AggregateFunction
    from flinkbuf.types.type_information import TypeInformation

__all__ = ["WindowOperation", "WindowOperatorFactory"]

CONTENTS = "window-contents"
WINDOW_SETS = "merging-window-set"
LATE_RECORDS = "numLateRecordsDropped"

# What the operator does with each result, as bits: 1 fires, 2 purges.
ACTIONS = {
    TriggerResult.CONTINUE: 0,
    TriggerResult.FIRE: 1,
    TriggerResult.PURGE: 2,
    TriggerResult.FIRE_AND_PURGE: 3,
}
# Operators that know windows and trigger themselves, where both are exactly these and there is no evictor.
FAST: dict[tuple[type[object], type[object]], type[WindowOperator]] = {
    (TumblingEventTimeWindows, EventTimeTrigger): AlignedWindowOperator,
    (SlidingEventTimeWindows, EventTimeTrigger): AlignedWindowOperator,
    (TumblingProcessingTimeWindows, ProcessingTimeTrigger): AlignedWindowOperator,
    (SlidingProcessingTimeWindows, ProcessingTimeTrigger): AlignedWindowOperator,
    (EventTimeSessionWindows, EventTimeTrigger): SessionWindowOperator,
    (DynamicEventTimeSessionWindows, EventTimeTrigger): SessionWindowOperator,
    (ProcessingTimeSessionWindows, ProcessingTimeTrigger): SessionWindowOperator,
    (DynamicProcessingTimeSessionWindows, ProcessingTimeTrigger): SessionWindowOperator,
}
# Of which a record is in one window at most; what a user has derived from them may do anything.
_ONE_WINDOW = (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    EventTimeSessionWindows,
    DynamicEventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    CountTumblingWindowAssigner,
    GlobalWindows,
)


@dataclass(eq=False)
class WindowOperation:
    """What a window operator does; it reads this, and asks it for what Python does better.

    `call` is the method of the user's window function, `clear` its method `clear` if it has one of its own. Without
    `call` what was reduced or aggregated is the result.
    """

    key_selector: Callable[..., object] | None
    assigner: Any
    trigger: object
    evictor: object
    allowed_lateness_ms: int
    late_tag_id: str | None
    contents_descriptor: StateDescriptor
    reduce: Callable[[object, object], object] | None
    aggregate_function: Any
    call: Callable[..., object] | None
    call_name: str | None
    clear: Callable[[object], object] | None
    is_process: bool
    is_all: bool
    lifecycle: object

    actions = ACTIONS
    proceed = TriggerResult.CONTINUE
    window_sets_descriptor = ValueStateDescriptor(WINDOW_SETS, None)

    @property
    def is_merging(self) -> bool:
        """Whether windows of a key become one."""
        return isinstance(self.assigner, MergingWindowAssigner)

    @property
    def gives_one_window(self) -> bool:
        """Whether no record is in two windows."""
        return type(self.assigner) in _ONE_WINDOW

    @property
    def is_list(self) -> bool:
        """Whether the window's function is given all records."""
        return self.reduce is None and self.aggregate_function is None

    @property
    def session_gap_ms(self) -> int:
        """After how long without a record a session is over; 0: the assigner has to be asked."""
        return getattr(self.assigner, "session_gap_ms", 0)

    @property
    def fires_at_end(self) -> bool:
        """Whether windows of processing time that are open at the end of the input fire then."""
        return getattr(self.trigger, "fires_at_end", False)

    def window_set(self, mapping: dict[object, object] | None) -> MergingWindowSet:
        """Return the windows of a key, as they are kept in its state."""
        return MergingWindowSet(self.assigner, mapping)

    def register_late_counter(self, metrics: MetricGroup) -> Counter:
        """Return what counts records that came too late for all their windows."""
        return metrics.register(LATE_RECORDS, Counter())

    @staticmethod
    def timestamped(elements: Iterable[tuple[object, int]]) -> list[TimestampedValue]:
        """Return the records of a window as an evictor is given them."""
        return [TimestampedValue(*element) for element in elements]

    def gather(self, values: list[object]) -> object:
        """Return what the window's function is given after an evictor chose `values`; None: nothing."""
        if self.is_list:
            return values
        if self.reduce is not None:
            return functools.reduce(self.reduce, values) if values else None
        function = self.aggregate_function
        accumulator = function.create_accumulator()
        for value in values:
            accumulator = function.add(value, accumulator)
        return function.get_result(accumulator)


class WindowOperatorFactory:
    """Makes the operator for windows in each subtask.

    Parameters
    ----------
    assigner : WindowAssigner
        Which windows a record belongs to.
    key_selector : callable, optional
        Gives the key of a record; None: windows over the whole stream (``window_all``).
    trigger : Trigger, optional
        The assigner's own by default.
    evictor : Evictor, optional
        Chooses among the records when the window fires.
    allowed_lateness_ms : int, default 0
        How long after its end a window of event time still takes records.
    late_tag_id : str, optional
        Side output of records that come later still; by default they are dropped and counted.
    reduce_function, aggregate_function : optional
        What the contents are gathered with, at most one of the two; else all records are kept.
    window_function : optional
        Gets the contents: a `WindowFunction` or `ProcessWindowFunction`, or those for all windows.
    contents_type : TypeInformation, optional
        Of a record or of an accumulator, in snapshots.
    two_phase : bool, default False
        Records are what a `CombiningOperator` gives.

    Raises
    ------
    TypeError, ValueError
        If these do not fit together.
    """

    def __init__(
        self,
        assigner: Any,
        *,
        key_selector: Callable[..., object] | None = None,
        trigger: Any = None,
        evictor: object = None,
        allowed_lateness_ms: int = 0,
        late_tag_id: str | None = None,
        reduce_function: ReduceFunction | Callable[..., object] | None = None,
        aggregate_function: AggregateFunction | None = None,
        window_function: object = None,
        contents_type: TypeInformation | None = None,
        two_phase: bool = False,
    ):
        self.assigner = assigner
        self.key_selector = key_selector
        self.trigger = assigner.get_default_trigger(None) if trigger is None else trigger
        self.evictor = evictor
        self.allowed_lateness_ms = allowed_lateness_ms
        self.late_tag_id = late_tag_id
        self.reduce_function = reduce_function
        self.aggregate_function = aggregate_function
        self.window_function = window_function
        self.contents_type = contents_type
        self.two_phase = two_phase
        self._check()
        if two_phase:
            self._check_two_phase()

    def _check(self) -> None:
        if isinstance(self.assigner, MergingWindowAssigner) and not self.trigger.can_merge():
            raise ValueError(
                f"{self.assigner!r} merges windows, and a merging window assigner cannot be used with a trigger that "
                f"does not support merging: {type(self.trigger).__name__}.can_merge() is false"
            )
        if self.allowed_lateness_ms < 0:
            raise ValueError(f"The allowed lateness cannot be negative, got {self.allowed_lateness_ms} ms")
        apply, process = self._kinds()
        if self.window_function is None:
            if self.reduce_function is None and self.aggregate_function is None:
                raise TypeError("a window needs a function: reduce, aggregate, apply or process")
        elif not isinstance(self.window_function, (apply, process)):
            raise TypeError(f"window_function should be a {apply.__name__} or {process.__name__}")

    def _check_two_phase(self) -> None:
        if FAST.get((type(self.assigner), type(self.trigger))) is not AlignedWindowOperator or self.evictor is not None:
            raise ValueError(
                "two_phase is for tumbling and sliding windows of time with their own trigger and without an evictor, "
                f"got {self.assigner!r} with {type(self.trigger).__name__}"
            )
        if self.key_selector is None:
            raise ValueError("two_phase is for windows of keys: window_all has none")
        if self.allowed_lateness_ms or self.late_tag_id is not None:
            raise ValueError(
                "two_phase sends no single records, so it cannot say which of them are late: leave out "
                "allowed_lateness and side_output_late_data, or two_phase"
            )
        if self.reduce_function is None and self.aggregate_function is None:
            raise ValueError("two_phase is for reduce and aggregate")

    def _kinds(self) -> tuple[type[Function], type[Function]]:
        if self.key_selector is None:
            return AllWindowFunction, ProcessAllWindowFunction
        return WindowFunction, ProcessWindowFunction

    def __call__(self) -> WindowOperator:
        """Make an operator."""
        if self.two_phase:
            return CombinedWindowOperator(self._operation())
        kind = FAST.get((type(self.assigner), type(self.trigger)))
        if kind is SessionWindowOperator and getattr(self.trigger, "fires_at_end", False):
            kind = None
        return self.general() if kind is None or self.evictor is not None else kind(self._operation())

    def combining(
        self, key_selector: Callable[..., object], key_type: TypeInformation | None, max_delay_ms: int
    ) -> CombiningOperatorFactory:
        """Return the factory of what combines records before they are sent; this one's is for what comes of it."""
        return CombiningOperatorFactory(
            key_selector,
            key_type,
            self._contents_descriptor(),
            reduce_function=self.reduce_function,
            aggregate_function=self.aggregate_function,
            assigner=self.assigner if self.assigner.is_event_time() else None,
            max_delay_ms=max_delay_ms,
        )

    def general(self) -> WindowOperator:
        """Make an operator that asks assigner and trigger, also where it need not."""
        return WindowOperator(self._operation())

    def _operation(self) -> WindowOperation:
        function = self.window_function
        process_kind = self._kinds()[1]
        is_process = isinstance(function, process_kind)
        method = "process" if is_process else "apply"
        clear = function.clear if is_process and type(function).clear is not process_kind.clear else None  # type: ignore[attr-defined]
        reduce = self.reduce_function
        return WindowOperation(
            key_selector=None if self.key_selector is None else quickened(self.key_selector),
            assigner=self.assigner,
            trigger=self._purging_trigger(),
            evictor=self.evictor,
            allowed_lateness_ms=self.allowed_lateness_ms,
            late_tag_id=self.late_tag_id,
            contents_descriptor=self._contents_descriptor(),
            reduce=None if reduce is None else quickened(as_call(reduce, ReduceFunction, "reduce"), 2),
            aggregate_function=self.aggregate_function,
            call=None if function is None else getattr(function, method),
            call_name=None if function is None else f"{type(function).__name__}.{method}()",
            clear=clear,
            is_process=is_process,
            is_all=self.key_selector is None,
            lifecycle=self._lifecycle(),
        )

    def _contents_descriptor(self) -> StateDescriptor:
        if self.evictor is not None:
            return ListStateDescriptor(CONTENTS, None)
        if self.reduce_function is not None:
            return ReducingStateDescriptor(CONTENTS, plain_reduce(self.reduce_function), self.contents_type)
        if self.aggregate_function is not None:
            return AggregatingStateDescriptor(CONTENTS, self.aggregate_function, self.contents_type)
        return ListStateDescriptor(CONTENTS, self.contents_type)

    def _lifecycle(self) -> Lifecycles:
        candidates = (self.key_selector, self.reduce_function, self.aggregate_function, self.window_function)
        return Lifecycles(*(each for each in candidates if isinstance(each, (Function, SelectorCall))))

    def _purging_trigger(self) -> object:
        """Count windows fire once and nothing would ever clear them: they are dropped when they do."""
        is_counting = isinstance(self.assigner, (CountTumblingWindowAssigner, CountSlidingWindowAssigner))
        if is_counting and type(self.trigger) is CountTrigger and self.trigger.window_size == self.assigner.window_size:
            return PurgingTrigger(self.trigger)
        return self.trigger
