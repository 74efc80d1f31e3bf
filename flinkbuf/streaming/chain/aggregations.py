"""From what a program says about rolling reductions to the operator that does them.

PyFlink: KeyedStream.reduce, sum, min, max, min_by and max_by.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.aggregate_operator import FieldReduce, ReduceOperator
from flinkbuf.streaming.chain.functions import Function, Lifecycles, ReduceFunction, SelectorCall, as_call
from flinkbuf.streaming.state.state import ReducingStateDescriptor

if TYPE_CHECKING:
    from flinkbuf.types.type_information import TypeInformation

__all__ = ["FieldReduce", "ReduceOperatorFactory", "field_reduce", "plain_reduce"]


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
    """

    def __init__(
        self,
        key_selector: Callable[[object], object],
        reduce_function: ReduceFunction | Callable[..., object],
        type_info: TypeInformation | None = None,
        is_batch: bool = False,
    ):
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError("The input must be a ReduceFunction or a callable function")
        self.key_selector = key_selector
        self.reduce_function = reduce_function
        self.type_info = type_info
        self.is_batch = is_batch

    def __call__(self) -> ReduceOperator:
        """Make an operator."""
        members = [
            each for each in (self.key_selector, self.reduce_function) if isinstance(each, (Function, SelectorCall))
        ]
        return ReduceOperator(
            self.key_selector,
            as_call(self.reduce_function, ReduceFunction, "reduce"),
            ReducingStateDescriptor("_reduce_state", plain_reduce(self.reduce_function), self.type_info),
            Lifecycles(*members) if members else None,
            self.is_batch,
        )
