"""The program as a graph of operators: what the transformations say, with everything unsaid decided.

Partitioners, side outputs and unions are no nodes: they become attributes of edges. Flink: StreamGraph,
StreamGraphGenerator, StreamNode, StreamEdge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from flinkbuf.runtime.graph.transformation import (
    UNNAMED_SINK,
    ChainingStrategy,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from flinkbuf.types.types import TypeInformation

DEFAULT_SLOT_SHARING_GROUP = "default"
MAX_PARALLELISM_LIMIT = 32768


@dataclass(frozen=True)
class GraphSettings:
    """What holds for the whole program. Flink: ExecutionConfig, StreamExecutionEnvironment."""

    job_name: str = "Flink Streaming Job"
    parallelism: int = 1
    max_parallelism: int | None = None  # None: from each operator's parallelism
    buffer_timeout_ms: int = 100  # 0: each record at once; -1: only full buffers
    is_chaining_enabled: bool = True
    chains_different_max_parallelism: bool = True
    needs_uids: bool = False  # pipeline.auto-generate-uids: false
    runs_in_program: bool = True  # all of it, as threads of the program's process; else task managers run it
    is_batch: bool = False  # all input has an end, and results are given once, at that
    is_blocking: bool = True  # in batch: what one task writes is read when it is complete; else while it is written
    slot_limit: int | None = None  # slotmanager.number-of-slots.max
    rescaled_from: int | None = None  # what `parallelism` was: operators that were made with it take the new one


@dataclass(eq=False)
class StreamNode:
    """One operator of the graph, for all its subtasks."""

    id: int  # from 1, in the order of the program
    transformation: OperatorTransformation
    parallelism: int
    max_parallelism: int | None  # as configured; None: not configured
    slot_sharing_group: str
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)
    is_in_program: bool = False  # runs beside the program, in no slot, while the others run in task managers
    co_location_group: str | None = None

    @property
    def name(self) -> str:
        """Return the user's name, or what the operator does; a source's begins with "Source: ", a sink's "Sink: "."""
        name = self.transformation.name
        prefix = "Source: " if self.transformation.is_source else "Sink: " if self.transformation.is_sink else ""
        return name if name.startswith(prefix) else prefix + name

    @property
    def reads_one_input_first(self) -> bool:
        """Return whether it has a broadcast input beside others, which in batch is read to its end first."""
        everywhere = [edge.partitioner == "broadcast" for edge in self.in_edges]
        return any(everywhere) and not all(everywhere)

    @property
    def description(self) -> str:
        """A longer text for the plan; the name if the user gave none."""
        return self.transformation.description or self.name

    @property
    def type(self) -> TypeInformation | None:
        """The type of its records; None if not declared."""
        return self.transformation.type


@dataclass(eq=False)
class StreamEdge:
    """Records of one operator go to one input of another."""

    source: StreamNode
    target: StreamNode
    input_number: int  # of the target, from 1; several edges with the same number are a union
    partitioner: object  # as in PartitionTransformation
    ship_strategy: str
    output_tag: str | None
    type: TypeInformation | None
    buffer_timeout_ms: int
    chains: bool = False  # decided when the job graph is made

    @property
    def is_forward(self) -> bool:
        """Return whether subtask i sends to subtask i alone."""
        return bool(self.partitioner == "forward")

    @property
    def is_pointwise(self) -> bool:
        """Return whether each subtask sends to its own few subtasks of the target."""
        return self.partitioner in ("forward", "rescale")


@dataclass(eq=False)
class StreamGraph:
    """All operators of a program, in the order in which they were made."""

    settings: GraphSettings
    nodes: list[StreamNode]
    known_ids: dict[int, str] = field(default_factory=dict)  # of nodes by number, from the same program made before

    @property
    def edges(self) -> Iterable[StreamEdge]:
        """Return all edges, by their source."""
        return (edge for node in self.nodes for edge in node.out_edges)


@dataclass(frozen=True)
class _Feed:
    """What a chain of partitioners, side outputs and unions comes down to: one operator and how its records travel."""

    source: Transformation
    partitioner: object = None  # None: not set
    ship_strategy: str = ""
    output_tag: str | None = None
    type: TypeInformation | None = None


def build_stream_graph(transformations: Iterable[Transformation], settings: GraphSettings) -> StreamGraph:
    """Make the graph of all operators that `transformations` are or need.

    Parameters
    ----------
    transformations : iterable of Transformation
        Usually the sinks, or all that the program has made; an operator is in the graph once.
    settings : GraphSettings

    Raises
    ------
    ValueError
        No operator at all, an operator that feeds itself, "forward" between different parallelisms, two operators of
        one uid, a parallelism that does not fit, a missing uid where they are asked for.

    Examples
    --------
    >>> source = OperatorTransformation("numbers", None, [], factory=list, is_source=True, parallelism=1)
    >>> doubled = OperatorTransformation("Map", None, [source], factory=list)
    >>> graph = build_stream_graph([doubled], GraphSettings(parallelism=2))
    >>> [(edge.source.name, edge.ship_strategy, edge.target.name) for edge in graph.edges]
    [('Source: numbers', 'REBALANCE', 'Map')]
    """
    operators = _operators_of(transformations)
    if not operators:
        raise ValueError(
            "No operators defined in streaming topology. Cannot execute: make a stream from a source first"
        )
    if settings.is_batch:
        operators = list(_with_committers_behind(operators))
    groups: dict[int, str] = {}
    of_batches = _sources_of_batches(operators)
    nodes = {
        operator.id: _node(number, of_batches.get(operator.id, operator), settings, groups)
        for number, operator in enumerate(operators, 1)
    }
    for operator in operators:
        for input_number, given in enumerate(operator.inputs, 1):
            for feed in _feeds(given):
                source = nodes[feed.source.id]
                carried = replace(feed, type=None) if feed.source.id in of_batches else feed
                _connect(source, nodes[operator.id], input_number, carried, settings)
    graph = StreamGraph(settings, list(nodes.values()))
    _check_uids(graph)
    _check_co_location(graph)
    return graph


def _operators_of(transformations: Iterable[Transformation]) -> list[OperatorTransformation]:
    """Return all operators that are reached, in the order in which the program made them."""
    found: dict[int, Transformation] = {}
    pending = list(transformations)
    while pending:
        transformation = pending.pop()
        if transformation.id not in found:
            found[transformation.id] = transformation
            pending.extend(transformation.inputs)
    _check_no_cycle(list(found.values()))
    return [found[id] for id in sorted(found) if isinstance(found[id], OperatorTransformation)]  # type: ignore[misc]


def _sources_of_batches(operators: Iterable[OperatorTransformation]) -> dict[int, OperatorTransformation]:
    """Return, by their ids, sources as they give batches: those of which all that reads them takes batches.

    A source is read once. If its readers want different columns it gives all.
    """
    readers: dict[int, list[OperatorTransformation]] = {}
    for operator in operators:
        for given in operator.inputs:
            for feed in _feeds(given):
                readers.setdefault(feed.source.id, []).append(operator)
    found = {}
    for source in operators:
        wanted = [each.reads_batches if each.inputs == [source] else None for each in readers.get(source.id, ())]
        batches = [each for each in wanted if each is not None]
        if batches and len(batches) == len(wanted):
            first = batches[0]
            factory = first.factory if all(each.schema == first.schema for each in batches) else first.whole
            if factory is not None:
                found[source.id] = replace(source, factory=factory, type=None)
    return found


def _with_committers_behind(operators: Iterable[OperatorTransformation]) -> Iterator[OperatorTransformation]:
    """Return all operators, sinks that commit made two: without checkpoints only the end of a task can be kept.

    What the writers have prepared is kept when they have finished, and a committer that begins again commits the same.
    Flink: SinkTransformationTranslator.
    """
    for operator in operators:
        parts = operator.in_batch
        if parts is None:
            yield operator
            continue
        name, uid = operator.name, operator.uid or operator.uid_hash
        is_named = name != UNNAMED_SINK
        writer = replace(
            operator,
            name=f"{name}: Writer" if is_named else name,
            factory=parts.writer,
            in_batch=None,
            is_sink=False,
            contract="Operator",
        )
        yield writer
        yield operator.like(
            name=f"{name}: Committer" if is_named else "Committer",
            inputs=[writer],
            factory=parts.committer,
            in_batch=None,
            is_committer=True,
            uid=f"Sink Committer: {uid}" if uid else None,
            uid_hash=None,
            needs_uid=False,
            description=None,
            co_location_group=None,
        )


def _check_no_cycle(transformations: Sequence[Transformation]) -> None:
    """Refuse a cycle: nodes without inputs are removed again and again, and those that stay wait for themselves."""
    waiting = {each.id: {given.id for given in each.inputs} for each in transformations}
    names = {each.id: each.name for each in transformations}
    while waiting:
        ready = {id for id, inputs in waiting.items() if not inputs}
        if not ready:
            circle = ", ".join(repr(names[id]) for id in sorted(waiting))
            raise ValueError(f"the streams form a circle: {circle}; an operator cannot read what comes from itself")
        waiting = {id: inputs - ready for id, inputs in waiting.items() if id not in ready}


def _node(number: int, operator: OperatorTransformation, settings: GraphSettings, groups: dict[int, str]) -> StreamNode:
    is_own = operator.is_parallelism_configured or operator.parallelism != settings.rescaled_from
    own = operator.parallelism if is_own else None
    parallelism = own or settings.parallelism
    limit = operator.max_allowed_parallelism
    if limit is not None:
        if own is not None and own > limit:
            raise ValueError(
                f"operator {operator.name!r} cannot be parallel: its parallelism must be {limit}, got "
                f"{operator.parallelism}"
            )
        parallelism = min(parallelism, limit)
    max_parallelism = operator.max_parallelism or settings.max_parallelism
    if max_parallelism is not None and not parallelism <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise ValueError(
            f"operator {operator.name!r}: max parallelism must be from its parallelism {parallelism} to "
            f"{MAX_PARALLELISM_LIMIT}, got {max_parallelism}"
        )
    return StreamNode(
        number,
        operator,
        parallelism,
        max_parallelism,
        _slot_sharing_group(operator, groups),
        is_in_program=operator.is_in_program and not settings.runs_in_program,
        co_location_group=operator.co_location_group,
    )


def _slot_sharing_group(operator: Transformation, known: dict[int, str]) -> str:
    """Return a node's group, or its inputs' if they agree. Flink: StreamGraphGenerator.determineSlotSharingGroup."""
    if operator.slot_sharing_group is not None:
        return operator.slot_sharing_group
    if operator.id not in known:  # asked once: ways through a graph of forks and joins are as many as 2 ** its length
        groups = {_slot_sharing_group(given, known) for given in operator.inputs}
        known[operator.id] = groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
    return known[operator.id]


def _feeds(given: Transformation) -> Iterable[_Feed]:
    """The operators behind an input, and what was said about the way from each."""
    if isinstance(given, UnionTransformation):
        for each in given.inputs:
            yield from _feeds(each)
    elif isinstance(given, PartitionTransformation):
        for feed in _feeds(given.inputs[0]):  # what is said last holds
            yield _Feed(feed.source, given.partitioner, given.ship_strategy, feed.output_tag, feed.type)
    elif isinstance(given, SideOutputTransformation):
        for feed in _feeds(given.inputs[0]):
            yield _Feed(feed.source, feed.partitioner, feed.ship_strategy, given.output_tag, given.type)
    else:
        yield _Feed(given, type=given.type)


def _connect(source: StreamNode, target: StreamNode, input_number: int, feed: _Feed, settings: GraphSettings) -> None:
    partitioner, ship_strategy = feed.partitioner, feed.ship_strategy
    if partitioner is None:
        is_forward = source.parallelism == target.parallelism
        partitioner, ship_strategy = ("forward", "FORWARD") if is_forward else ("rebalance", "REBALANCE")
    elif partitioner == "forward" and source.parallelism != target.parallelism:
        raise ValueError(
            f"forward partitioning cannot change the parallelism: {source.name!r} has {source.parallelism}, "
            f"{target.name!r} has {target.parallelism}; use rebalance(), rescale(), shuffle() or broadcast() instead"
        )
    # A blocking partition is read only after its end, so no reader waits for a flush.
    timeout = -1 if settings.is_batch else source.transformation.buffer_timeout_ms
    edge = StreamEdge(
        source,
        target,
        input_number,
        partitioner,
        ship_strategy,
        feed.output_tag,
        feed.type,
        settings.buffer_timeout_ms if timeout is None else timeout,
    )
    source.out_edges.append(edge)
    target.in_edges.append(edge)


def _check_uids(graph: StreamGraph) -> None:
    owners: dict[str, str] = {}
    for node in graph.nodes:
        uid = node.transformation.uid
        if uid is None:
            is_wanted = graph.settings.needs_uids and node.transformation.needs_uid
            if is_wanted and node.transformation.uid_hash is None:
                raise ValueError(
                    f"operator {node.name!r} has no uid, and generated ones are disabled: call uid(...) on it"
                )
            continue
        if uid in owners:
            raise ValueError(
                f"operators {owners[uid]!r} and {node.name!r} have the same uid {uid!r}: each needs one of "
                "its own, since state is found again by it"
            )
        owners[uid] = node.name


def _check_co_location(graph: StreamGraph) -> None:
    """Operators that are to share slots must be able to. Flink: StreamingJobGraphGenerator.setCoLocation."""
    first: dict[str, StreamNode] = {}
    for node in graph.nodes:
        group = node.co_location_group
        if group is None:
            continue
        if node.is_in_program:
            raise ValueError(
                f"operator {node.name!r} uses an object of the program and runs beside it, in no slot: it cannot be "
                f"co-located with group {group!r}; give it a function that can be copied, or leave out the group"
            )
        other = first.setdefault(group, node)
        if other.slot_sharing_group != node.slot_sharing_group:
            raise ValueError(
                f"cannot co-locate operators from different slot sharing groups: in group {group!r}, {other.name!r} is "
                f"in {other.slot_sharing_group!r} and {node.name!r} in {node.slot_sharing_group!r}; give both the same"
            )


def is_committed_behind(edge: StreamEdge, settings: GraphSettings) -> bool:
    """Return whether the source of an edge has to be complete, in batch, before the target commits what it prepared."""
    return settings.is_batch and edge.target.transformation.is_committer


def is_chainable(edge: StreamEdge, settings: GraphSettings) -> bool:
    """Return whether both ends of an edge share a task. Flink: StreamingJobGraphGenerator.isChainable."""
    up, down = edge.source.transformation, edge.target.transformation
    return (
        len(edge.target.in_edges) == 1
        and settings.is_chaining_enabled
        and not (edge.source.is_in_program or edge.target.is_in_program)
        and edge.source.slot_sharing_group == edge.target.slot_sharing_group
        and not is_committed_behind(edge, settings)
        and up.chaining_strategy is not ChainingStrategy.NEVER
        and (
            down.chaining_strategy is ChainingStrategy.ALWAYS
            or (down.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES and up.is_source)
        )
        and not (down.is_yielding and up.is_legacy_source)
        and edge.source.parallelism == edge.target.parallelism
        and (settings.chains_different_max_parallelism or edge.source.max_parallelism == edge.target.max_parallelism)
        and edge.is_forward
    )


def is_pipelined(graph: StreamGraph) -> bool:
    """Return whether the records of one task are read by another while they are written.

    In batch it is not, unless that is asked for; and not where an operator reads one input to its end before another:
    what writes both would wait for it. Flink: StreamingJobGraphGenerator.determineUndefinedResultPartitionType.
    """
    if not graph.settings.is_batch:
        return True
    return not graph.settings.is_blocking and not any(node.reads_one_input_first for node in graph.nodes)
