"""What a program says: streams made from streams. Every method of a DataStream adds one of these.

Nothing is decided here: unset parallelism, partitioners and names are settled when the stream graph is made of them.
Flink: Transformation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.types.types import TypeInformation

if TYPE_CHECKING:
    from typing_extensions import Self

UNNAMED_SINK = "Writer"  # what a sink with a writer is called by default
_ids = itertools.count(1)  # only tells transformations of one process apart; operator ids come from the graph


class ChainingStrategy(Enum):
    """Whether an operator may share a task with the one before it. Flink: ChainingStrategy."""

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"  # begins a chain
    HEAD_WITH_SOURCES = "HEAD_WITH_SOURCES"


@dataclass(eq=False)
class Transformation:
    """One node of the program; `type` is the type information of its records, None if not declared."""

    name: str
    type: TypeInformation | None
    inputs: list[Transformation]
    parallelism: int | None = None  # None: the environment's default
    max_parallelism: int | None = None
    is_parallelism_configured: bool = False  # by the program, for this operator: it keeps it when a job is rescaled
    uid: str | None = None
    uid_hash: str | None = None  # 32 hex digits
    slot_sharing_group: str | None = None
    buffer_timeout_ms: int | None = None
    description: str | None = None
    co_location_group: str | None = None  # subtasks of one index share a slot, within one slot sharing group
    id: int = field(default_factory=lambda: next(_ids))

    def like(self, **changes: Any) -> Self:
        """Return another node that differs in this."""
        return replace(self, id=next(_ids), **changes)


@dataclass(frozen=True)
class BatchSource:
    """What a source is made by instead, so that it gives batches of columns and no records.

    Attributes
    ----------
    factory : callable
        Makes the source's operator.
    schema : pyarrow.Schema
        Of the batches.
    whole : callable, optional
        Makes the operator of one that gives all columns, of which each reader takes its own; None: there is none.
    """

    factory: Callable[[], StreamOperator]
    schema: object
    whole: Callable[[], StreamOperator] | None


@dataclass(frozen=True)
class CommittedBehind:
    """What a sink is made by instead in batch: writers, and the committers in an operator behind them.

    Attributes
    ----------
    writer, committer : callable
        Each makes an operator.
    """

    writer: Callable[[], StreamOperator]
    committer: Callable[[], StreamOperator]


@dataclass(eq=False)
class OperatorTransformation(Transformation):
    """A source (no inputs), an operator of one or more inputs, or a sink (type None and nothing reads it).

    `factory()` makes the operator. Inputs are numbered from 1 in the order of `inputs`; an input that several streams
    feed is one `UnionTransformation`.
    """

    factory: Callable[[], StreamOperator] = None  # type: ignore[assignment]
    is_source: bool = False
    is_sink: bool = False
    is_bounded: bool | None = True  # of a source: whether it comes to an end by itself; None: unknown
    is_legacy_source: bool = False  # a SourceFunction: operators that yield to the mailbox are not chained to it
    is_yielding: bool = False  # such as the async operator
    reads_batches: BatchSource | None = None  # takes batches, too, of the source that is its input
    in_batch: CommittedBehind | None = None  # a sink whose committer is another operator there
    is_committer: bool = False  # makes visible what its input has prepared, which cannot be taken back
    is_keyed: bool = False
    key_type: TypeInformation | None = None  # None: not declared
    chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS
    max_allowed_parallelism: int | None = None  # 1: cannot be parallel
    needs_uid: bool = True  # False: the program did not make it and cannot name it, and it has no state
    contract: str = ""  # "Data Source", "Operator" or "Data Sink" in the execution plan

    @property
    def is_in_program(self) -> bool:
        """Return whether the operator uses an object of the program itself, such as a list that a sink appends to."""
        return bool(getattr(self.factory, "is_in_program", False))


@dataclass(eq=False)
class PartitionTransformation(Transformation):
    """How records get from its input to what reads it.

    `partitioner` is one of "forward", "rebalance", "rescale", "shuffle", "global", "broadcast", a `KeyedExchange`, a
    `ColumnKeyExchange`, or a `CustomExchange`. `ship_strategy` is how Flink's plan names it (HASH, REBALANCE, ...).
    """

    partitioner: object = "forward"
    ship_strategy: str = "FORWARD"


@dataclass(eq=False)
class SideOutputTransformation(Transformation):
    """The records of its input that carry the tag."""

    output_tag: str = ""


@dataclass(eq=False)
class UnionTransformation(Transformation):
    """All records of all its inputs."""


@dataclass(frozen=True)
class KeyedExchange:
    """Sends a record by the key group of what `selector` (a callable) gives for it."""

    selector: Callable[[object], object]
    key_type: TypeInformation | None = None  # None: not declared


@dataclass(frozen=True)
class ColumnKeyExchange:
    """Sends each row of a column stream by the key group of the columns that are named.

    With `gathers`, the operator gives the same rows whatever elements they come in, so that small ones may go as one.
    """

    names: tuple[str, ...]
    gathers: bool = False


@dataclass(frozen=True)
class CustomExchange:
    """Sends a record to the channel ``partition(selector(record), channel_count)``."""

    partition: Callable[[object, int], int]
    selector: Callable[[object], object]
