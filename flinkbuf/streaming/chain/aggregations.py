"""From what a program says about rolling reductions to the operator that does them.

PyFlink: KeyedStream.reduce, sum, min, max, min_by and max_by.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.aggregate_operator import FieldReduce, ReduceOperator
from flinkbuf._core.operators.combining_operator import CombiningOperator, Panes
from flinkbuf._core.record.plain_function import quickened
from flinkbuf.streaming.chain.functions import Function, Lifecycles, ReduceFunction, SelectorCall, as_call
from flinkbuf.streaming.state.state import ReducingStateDescriptor, StateDescriptor

if TYPE_CHECKING:
    from flinkbuf.types.type_information import TypeInformation

__all__ = [
    "COMBINED_KEY",
    "CombiningOperatorFactory",
    "FieldReduce",
    "ReduceOperatorFactory",
    "field_reduce",
    "plain_reduce",
]

COMBINED_KEY: Callable[[Any], Any] = operator.itemgetter(0)  # the key of what a `CombiningOperator` gives


def field_reduce(kind: str, position: int | str) -> FieldReduce:
    """Return the reduction behind ``sum``, ``min``, ``max``, ``min_by`` and ``max_by``.

    Examples
    --------
    >>> field_reduce("sum", 1)(("a", 1), ("a", 2))
    ('a', 3)
    """
    if not isinstance(position, (int, str)):
        raise TypeError(
            "The field position must be of int or str type to locate the value to calculate for min, max, min_by, "
            f"max_by and sum.The given type is: {type(position)}"
        )
    return FieldReduce(kind, position)


def plain_reduce(function: Any) -> Callable[..., object]:
    """Return a reduction as a state takes it; a callable may have a method ``reduce`` of another meaning.

    Examples
    --------
    >>> import numpy
    >>> hasattr(numpy.maximum, "reduce"), hasattr(plain_reduce(numpy.maximum), "reduce")
    (True, False)
    """
    is_mistaken = hasattr(function, "reduce") and not isinstance(function, ReduceFunction)
    return functools.partial(function) if is_mistaken else function


class CombiningOperatorFactory:
    """Makes, in each subtask, the operator that puts records of a key together before they are sent.

    Parameters
    ----------
    key_selector : callable
        Gives the key of a record.
    key_type : TypeInformation or None
        Of the keys.
    descriptor : StateDescriptor
        Of the state in which the operator behind the exchange keeps what is combined.
    reduce_function, aggregate_function : optional
        What it is combined with: one of the two.
    assigner : WindowAssigner, optional
        Of windows of event time, which stay apart.
    max_delay_ms : int
        How long a record may wait for others where there are no such windows; -1: as long as event time stands still.
    """

    def __init__(
        self,
        key_selector: Callable[..., object],
        key_type: TypeInformation | None,
        descriptor: StateDescriptor,
        *,
        reduce_function: ReduceFunction | Callable[..., object] | None = None,
        aggregate_function: object = None,
        assigner: object = None,
        max_delay_ms: int,
    ):
        self.key_selector = key_selector
        self.key_type = key_type
        self.descriptor = descriptor
        self.reduce_function = reduce_function
        self.aggregate_function = aggregate_function
        self.assigner = assigner
        self.max_delay_ms = max_delay_ms

    def __call__(self) -> CombiningOperator:
        """Make an operator."""
        from flinkbuf.streaming.state.state_backend import detached_state

        functions = (self.key_selector, self.reduce_function, self.aggregate_function)
        members = [each for each in functions if isinstance(each, (Function, SelectorCall))]
        reduce = self.reduce_function
        return CombiningOperator(
            quickened(self.key_selector),
            None if self.key_type is None else self.key_type.codec,
            functools.partial(detached_state, self.descriptor),
            reduce=None if reduce is None else quickened(as_call(reduce, ReduceFunction, "reduce"), 2),
            aggregate_function=self.aggregate_function,
            panes=None if self.assigner is None else Panes(self.assigner),
            lifecycle=Lifecycles(*members) if members else None,
            max_delay_ms=self.max_delay_ms,
        )


class ReduceOperatorFactory:
    """Makes the operator of a rolling reduction in each subtask.

    Parameters
    ----------
    key_selector : callable
        Gives the key of a record.
    reduce_function : ReduceFunction or callable
        Makes one value of two; `field_reduce` gives those by field.
    type_info : TypeInformation, optional
        Of the records, in snapshots.
    is_batch : bool, default False
        Emit one result a key at the end instead of one a record.
    is_combined : bool, default False
        Records are what a `CombiningOperator` gives.
    """

    def __init__(
        self,
        key_selector: Callable[[object], object],
        reduce_function: ReduceFunction | Callable[..., object],
        type_info: TypeInformation | None = None,
        is_batch: bool = False,
        is_combined: bool = False,
    ):
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError("The input must be a ReduceFunction or a callable function")
        self.key_selector = key_selector
        self.reduce_function = reduce_function
        self.type_info = type_info
        self.is_batch = is_batch
        self.is_combined = is_combined

    @property
    def descriptor(self) -> StateDescriptor:
        """Return that of the state in which results are kept."""
        return ReducingStateDescriptor("_reduce_state", plain_reduce(self.reduce_function), self.type_info)

    def combining(self, key_type: TypeInformation | None, max_delay_ms: int) -> CombiningOperatorFactory:
        """Return the factory of what combines records before they are sent; this one's is for what comes of it."""
        return CombiningOperatorFactory(
            self.key_selector,
            key_type,
            self.descriptor,
            reduce_function=self.reduce_function,
            max_delay_ms=max_delay_ms,
        )

    def __call__(self) -> ReduceOperator:
        """Make an operator."""
        members = [
            each for each in (self.key_selector, self.reduce_function) if isinstance(each, (Function, SelectorCall))
        ]
        return ReduceOperator(
            quickened(self.key_selector),
            quickened(as_call(self.reduce_function, ReduceFunction, "reduce"), 2),
            self.descriptor,
            Lifecycles(*members) if members else None,
            self.is_batch,
            self.is_combined,
        )
