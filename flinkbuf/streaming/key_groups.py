"""Which key groups a subtask has, and which group a key is in."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass
from typing import Any

from flinkbuf._core.key_group import KeyHasher, key_group_of_hash, key_group_range
from flinkbuf.types.type_information import TypeInformation


@dataclass(frozen=True)
class KeyGroups:
    """The key groups of one subtask, and how keys fall into groups. Flink: KeyGroupRange, KeyGroupRangeAssignment.

    Examples
    --------
    >>> KeyGroups.of_subtask(None, 128, parallelism=2, subtask_index=1)
    KeyGroups(key_type=None, max_parallelism=128, first=64, last=127)
    """

    key_type: TypeInformation | None
    max_parallelism: int
    first: int
    last: int

    @staticmethod
    def of_subtask(
        key_type: TypeInformation | None, max_parallelism: int, *, parallelism: int, subtask_index: int
    ) -> KeyGroups:
        """Return the groups that a subtask has at this parallelism."""
        return KeyGroups(key_type, max_parallelism, *key_group_range(max_parallelism, parallelism, subtask_index))

    def __contains__(self, key_group: int) -> bool:
        return self.first <= key_group <= self.last

    def grouper(self) -> Any:
        """Return a function from a key to its group; as the partitioner computes it."""
        if self.key_type is None:
            return lambda key: key_group_of_hash(zlib.crc32(pickle.dumps(key)) - 2**31, self.max_parallelism)
        hasher = KeyHasher(self.key_type.codec)
        return lambda key: key_group_of_hash(hasher.hash_code(key), self.max_parallelism)
