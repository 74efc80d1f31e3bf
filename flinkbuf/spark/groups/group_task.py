"""The body of a Spark task that calls a function for each group of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flinkbuf.runtime.protocol.failure import add_note
from flinkbuf.spark.exchange.frame_tasks import FrameSource
from flinkbuf.spark.groups.group_results import GroupSchema, SmallBatches, kind_of
from flinkbuf.spark.groups.key_runs import GroupBatches, KeyRuns


@dataclass(frozen=True)
class GroupTask:
    """Calls the function for each group in batches whose rows are sorted by key.

    Attributes
    ----------
    function : callable
        The user's.
    takes_key : bool
        Whether the function is given the key before the batches.
    places : list of int
        The columns of the key.
    names : list of str
        What these are called.
    source : FrameSource
        What becomes of the batches first.
    results : GroupSchema
        What the function gives.
    """

    function: Callable[..., Any]
    takes_key: bool
    places: list[int]
    names: list[str]
    source: FrameSource
    results: GroupSchema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results for all groups of a Spark partition."""
        runs = KeyRuns(self.source(batches), self.places, self.names)
        small, seen = SmallBatches(self.results.schema), 0
        for group in runs.groups():
            for result in self._results_for(group):
                if seen < runs.batch_count:
                    # Results may be slices of the batches that were read: none waits for longer than these are needed.
                    seen = runs.batch_count
                    yield from small.take()
                yield from small.add(self.results.fitted(result, group))
        yield from small.take()

    def _results_for(self, group: GroupBatches) -> Iterator[object]:
        """Yield what the function gives; an error of it says for which group."""
        try:
            results = self.function(group.key, group) if self.takes_key else self.function(group)
            if isinstance(results, (pa.RecordBatch, pa.Table)) or not isinstance(results, Iterable):
                raise TypeError(
                    f"the function gave {kind_of(results)}, where an iterator or a list of pyarrow.RecordBatches is "
                    "needed: yield each batch"
                )
            yield from results
        except Exception as error:
            add_note(error, f"in the function of apply_in_arrow(), for the group {group}")
            raise
