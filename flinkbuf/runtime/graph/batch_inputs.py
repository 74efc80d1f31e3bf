"""Which inputs of a task are sorted in batch execution.

Flink: the TransformationTranslators' ``translateForBatch``, BatchExecutionUtils.applyBatchExecutionSettings.
"""

from __future__ import annotations

from flinkbuf.runtime.graph.transformation import ColumnKeyExchange, KeyedExchange
from flinkbuf.streaming.chain.operator_config import SortKey


def sort_key_of(is_keyed: bool, partitioner: object) -> SortKey | None:
    """Say by what an input of a task's head is sorted; None: its records are processed as they come.

    `is_keyed` is the operator's, `partitioner` says how records get to it: see `PartitionTransformation`.

    Inputs of keyed operators are sorted by key, so that only one key's state is kept at a time. A broadcast input of
    such an operator has no keys and is read before. Windows over all records are those of one key.
    Batches of columns hold rows of many keys, and are not sorted.
    """
    if not is_keyed or partitioner == "broadcast" or isinstance(partitioner, ColumnKeyExchange):
        return None
    if isinstance(partitioner, KeyedExchange):
        return SortKey(partitioner.selector, partitioner.key_type)
    return SortKey()
