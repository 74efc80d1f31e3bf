"""Streams without end, or data of which all is there. Flink: RuntimeExecutionMode, StreamGraphGenerator."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from enum import Enum

from flinkbuf.runtime.graph.transformation import OperatorTransformation, Transformation


class RuntimeExecutionMode(Enum):
    """Which of the two a program is run as."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


def is_bounded(source: object) -> bool | None:
    """Return whether a source comes to an end by itself; None if nobody can know.

    What has a `boundedness` says it; an object with ``run(context)`` is Flink's SourceFunction, which has no end.

    Examples
    --------
    >>> is_bounded([1, 2]), is_bounded(iter([1, 2]))
    (True, None)
    """
    boundedness = getattr(source, "boundedness", None)
    if boundedness is not None:
        return getattr(boundedness, "name", boundedness) == "BOUNDED"
    if callable(getattr(source, "run", None)):
        return False
    return True if isinstance(source, Sized) or callable(getattr(source, "create_reader", None)) else None


def runs_in_batch(operators: Iterable[Transformation], mode: str) -> bool:
    """Return whether a program runs in batch.

    Parameters
    ----------
    operators : iterable of Transformation
        All that read something.
    mode : {"STREAMING", "BATCH", "AUTOMATIC"}

    Raises
    ------
    ValueError
        ``BATCH``, and a source has no end.
    """
    if mode == RuntimeExecutionMode.STREAMING.name:
        return False
    sources = list(_sources_of(operators))
    if mode == RuntimeExecutionMode.AUTOMATIC.name:
        return all(each.is_bounded for each in sources)
    endless = [each.name for each in sources if each.is_bounded is False]
    if endless:
        raise ValueError(
            f"Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH': "
            f"{', '.join(map(repr, endless))}. This combination is not allowed, please set the "
            f"'execution.runtime-mode' to STREAMING or AUTOMATIC, or give the source an end"
        )
    return True


def _sources_of(operators: Iterable[Transformation]) -> Iterable[OperatorTransformation]:
    """All that the operators read in the end, each once."""
    seen: set[int] = set()
    pending = list(operators)
    while pending:
        each = pending.pop()
        if each.id not in seen:
            seen.add(each.id)
            pending.extend(each.inputs)
            if isinstance(each, OperatorTransformation) and each.is_source:
                yield each
