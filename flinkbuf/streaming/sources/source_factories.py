"""What a program puts into its graph for a source: small objects that make the operator of each subtask."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from flinkbuf._core.value.conversion import convert
from flinkbuf._core.value.own_value import copied_if_it_can
from flinkbuf.streaming.chain.by_reference import ByReference
from flinkbuf.streaming.sources.iterator_source import (
    CollectionSourceOperator,
    GeneratorSourceOperator,
    IterableSourceOperator,
    ProgramIterable,
)
from flinkbuf.streaming.sources.source import Source
from flinkbuf.streaming.sources.source_context import TimeCharacteristic
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore, SourceCoordinator
from flinkbuf.streaming.sources.source_function import SourceFunctionOperator
from flinkbuf.streaming.sources.source_operator import SourceOperator
from flinkbuf.streaming.sources.table_source import is_table
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

COLLECTION_SOURCE_NAME = "Collection Source"


class CollectionSourceFactory:
    """``env.from_collection(elements)``: the elements as they are now, each as its declared type gives it.

    What of them can change is in no two of them, though one object may stand at several places of the collection.

    Parameters
    ----------
    elements : iterable
        A range stays one; anything else is taken whole.
    type_info : TypeInformation, optional
        What the elements are; None: not declared.

    Raises
    ------
    TypeError
        If `elements` is not iterable.
    """

    def __init__(self, elements: Iterable[object], type_info: TypeInformation | None = None) -> None:
        own = copied_if_it_can if type_info is None else partial(convert, type_info.codec)
        is_as_it_is = isinstance(elements, range) and type_info is None
        self.elements: Iterable[object] = elements if is_as_it_is else [own(element) for element in elements]

    def __call__(self) -> CollectionSourceOperator:
        """Make the operator of the only subtask."""
        return CollectionSourceOperator(self.elements)

    def of_batches(
        self, wanted: object, max_rows: int, max_bytes: int
    ) -> tuple[CollectionSourceFactory, pa.Schema] | None:
        """Return the factory, and the schema of its elements, if these are batches of one; None: they are not.

        Whoever says what is wanted has the operator behind it cast them.
        """
        schemas = [getattr(element, "schema", None) for element in self.elements if is_table(element)]
        if wanted is not None or not schemas or len(schemas) < len(list(self.elements)):
            return None
        return (self, schemas[0]) if all(each == schemas[0] for each in schemas) else None


class IterableSourceFactory:
    """``env.add_source(iterable)``, or of a function without arguments that returns one.

    An iterable is the program's own, not a copy; so it is read in the program's process on every target. A function is
    copied, and called where the source runs; if it has a parameter it is given the `RuntimeContext`.
    """

    def __init__(self, source: Iterable[object] | Callable[..., Iterable[object]]) -> None:
        self.function = source if callable(source) else None
        self.iterable: ByReference | None = None
        if not callable(source):
            self.iterable = ByReference(ProgramIterable(source), f"the source {reprlib.repr(source)}")

    @property
    def is_in_program(self) -> bool:
        """Return whether the source reads an object of the program itself."""
        return self.iterable is not None

    def __call__(self) -> IterableSourceOperator | GeneratorSourceOperator:
        """Make the operator of the only subtask."""
        function, iterable = self.function, self.iterable
        if iterable is not None:
            is_in_memory = iterable.value.is_in_memory
            make_operator = IterableSourceOperator if is_in_memory else GeneratorSourceOperator
            return make_operator(lambda context: iterable.value)
        assert function is not None, "it is one or the other"
        if required_parameter_count(function):
            return GeneratorSourceOperator(lambda context: function(context.runtime_context))
        return GeneratorSourceOperator(lambda context: function())

    def why_not_again(self) -> str | None:
        """Return why a job that has read it cannot begin anew; None: it can."""
        reason: str | None = None if self.iterable is None else self.iterable.value.why_not_again()
        return reason


@dataclass(frozen=True)
class SourceFunctionFactory:
    """``env.add_source(object)`` with methods ``run(context)`` and ``cancel()``. Flink: SourceFunction."""

    source_function: object
    characteristic: TimeCharacteristic = TimeCharacteristic.EVENT_TIME

    def __call__(self) -> SourceFunctionOperator:
        """Make the operator of one subtask."""
        return SourceFunctionOperator(self.source_function, self.characteristic)


@dataclass(frozen=True)
class SourceOperatorFactory:
    """``env.from_source(source, watermark_strategy, name)``."""

    source: Source
    watermark_strategy: WatermarkStrategy | None = None

    def __post_init__(self) -> None:
        if not callable(getattr(self.source, "create_reader", None)):
            raise TypeError(
                f"from_source takes a flinkbuf.datastream.connectors.base.Source, got {type(self.source).__name__}; "
                "an iterable, or an object with run(context), goes to add_source"
            )

    def __call__(self) -> SourceOperator:
        """Make the operator of one subtask."""
        return SourceOperator(self.source, self.watermark_strategy)

    def of_batches(
        self, wanted: object, max_rows: int, max_bytes: int
    ) -> tuple[SourceOperatorFactory, pa.Schema] | None:
        """Return what makes a source of whole batches, and their schema; None: the source has records only.

        A batch counts as one record to the strategy. One that looks at records gets them: then there are no batches.
        """
        make = getattr(self.source, "of_batches", None)
        if make is None or (self.watermark_strategy is not None and self.watermark_strategy.looks_at_records):
            return None
        made = make(wanted, max_rows, max_bytes)
        return None if made is None else (replace(self, source=made[0]), made[1])

    def create_coordinator(
        self, parallelism: int, clock: Clock, store: CoordinatorStore, report_failure: Callable[[BaseException], None]
    ) -> SourceCoordinator:
        """Make the coordinator of all subtasks' operators; the runner of the job starts and closes it."""
        alignment = None if self.watermark_strategy is None else self.watermark_strategy.alignment
        return SourceCoordinator(self.source, parallelism, clock, store, report_failure, alignment)


def required_parameter_count(function: Callable[..., object]) -> int:
    """Return how many arguments a function has to be given by position; 0 where that is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtin functions do not tell
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is each.empty for each in parameters)


def source_factory_of(source: object) -> Callable[[], object]:
    """Return what ``env.add_source(source)`` puts into the graph.

    Raises
    ------
    TypeError
        If it has no method ``run``, is no iterable, and no function that returns one.
    """
    if callable(getattr(source, "run", None)):
        return SourceFunctionFactory(source)
    if callable(source) or hasattr(source, "__iter__"):
        return IterableSourceFactory(source)
    raise TypeError(
        "add_source takes an object with run(context), an iterable, or a function that returns an iterable; got "
        f"{type(source).__name__} {source!r}"
    )
