"""Which key groups a subtask has, and which group a key is in."""

from __future__ import annotations

from dataclasses import dataclass

from flinkbuf._core.record.key_group import KeyGrouper, key_group_range
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.types.type_information import TypeInformation, object_type


def codec_of(type: TypeInformation | None) -> TypeCodec | None:
    """Return the codec that writes values of a type in snapshots; None: any values, as without a declared type."""
    return None if type is None or type.kind in ("PICKLED_BYTES", "OBJECT") else type.codec


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

    @property
    def key_codec(self) -> TypeCodec | None:
        """Return the codec of keys; None: any keys."""
        return codec_of(self.key_type)

    def grouper(self) -> KeyGrouper:
        """Return the function that finds the group of a key, as the partitioner does; one for each thread."""
        codec = self.key_codec or object_type().codec  # it alone writes rows as partitioners do
        return KeyGrouper(codec, self.max_parallelism, self.first, self.last)
