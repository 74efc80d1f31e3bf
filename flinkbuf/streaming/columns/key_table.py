"""Keys of rows as slots of a table, under which states and timers lie in arrays.

No key leaves the table alone. When the table has doubled, and more than half of its slots hold nothing, the others are
moved together, so that keys which come once and go do not stay. Owned by the operator, used by the task's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from flinkbuf.records.column_exchange import RowKeys, key_columns
from flinkbuf.streaming.chain.map_batches import is_result, record_batches
from flinkbuf.streaming.columns.column_groups import ColumnGroups, GroupPlan
from flinkbuf.streaming.state.key_groups import KeyGroups

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

LEAST_SLOTS = 4096  # of a table that is looked through for empty ones


class SlotHolder(Protocol):
    """What has values under slots."""

    def mark(self, is_held: np.ndarray) -> None:
        """Set those places of an array of booleans to true under whose slots there is something."""
        ...

    def keep(self, slots: np.ndarray) -> None:
        """Keep what lies under these slots, which rise, as that of slots 0, 1 and so on; nothing lies under others."""
        ...


class KeyTable:
    """The keys of one subtask.

    Parameters
    ----------
    names : tuple of str
        Of the columns that are the key.
    key_groups : KeyGroups
        Of the subtask.
    """

    def __init__(self, names: tuple[str, ...], key_groups: KeyGroups) -> None:
        self.names = names
        self._key_groups = key_groups
        self._row_keys = RowKeys(names, key_groups.max_parallelism)
        self._plan: GroupPlan | None = None
        self._groups: ColumnGroups | None = None  # without aggregates: keys alone
        self._holders: list[SlotHolder] = []
        self._looked_through_at = LEAST_SLOTS
        self._in_hand: tuple[pa.RecordBatch, np.ndarray] | None = None

    def __len__(self) -> int:
        return 0 if self._groups is None else len(self._groups)

    def add_holder(self, holder: SlotHolder) -> None:
        """Ask it which slots are in use."""
        self._holders.append(holder)

    def slots_of(self, keys: pa.RecordBatch) -> np.ndarray:
        """Return the slots of keys that belong to this subtask; one that is new gets the next."""
        if self._plan is None or self._groups is None:
            self._plan = GroupPlan(keys.schema.remove_metadata(), (), ())
            self._groups = ColumnGroups(self._plan)
        return self._groups.slots_of(self._plan.keys_as(keys))

    def keys_at(self, slots: np.ndarray) -> pa.RecordBatch:
        """Return the keys in some slots, in any order."""
        import numpy as np

        assert self._groups is not None
        order = stable_order(slots)
        keys, _ = self._groups.results(slots[order].astype(np.int64))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return keys.take(places)

    def take_in_hand(self, keys: pa.RecordBatch, slots: np.ndarray) -> None:
        """Note the slots of keys that a function is given: if it gives them back, they need not be looked up."""
        self._in_hand = keys, slots

    def slots_given(self, keys: object, where: str) -> np.ndarray:
        """Return the slots that a user means: by keys, as a batch with their columns, or by the slots themselves.

        Raises
        ------
        TypeError
            If it is neither.
        IndexError
            If there is no such slot.
        ValueError
            If a key belongs to another subtask.
        """
        import numpy as np

        if self._in_hand is not None and keys is self._in_hand[0]:
            return self._in_hand[1]
        if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in "iu":
            if len(keys) and not 0 <= int(keys.min()) <= int(keys.max()) < len(self):
                raise IndexError(
                    f"{where}: there are slots from 0 to {len(self) - 1}, got {keys.min()} to {keys.max()}; slots are "
                    "those of context.slots, and good for one call"
                )
            return keys
        if not is_result(keys):
            raise TypeError(
                f"{where} takes keys, as a batch with the columns {', '.join(self.names)} such as context.keys, or an "
                f"array of some of context.slots; got {_kind_of(keys)}"
            )
        found = [self._slots_asked(key_columns(each, self.names), where) for each in record_batches(keys)]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint32), *found])

    def _slots_asked(self, keys: pa.RecordBatch, where: str) -> np.ndarray:
        """Return the slots of keys that a user made; there may be any among them."""
        groups = self._row_keys.of(keys)
        if len(groups) and not (groups.min() in self._key_groups and groups.max() in self._key_groups):
            raise ValueError(
                f"{where}: some of these keys belong to other subtasks, which alone have their state; a function may "
                "ask for keys of its own batches"
            )
        return self.slots_of(keys)

    def forget_keys(self) -> None:
        """Move slots together if the table has grown and most of them hold nothing. Slots are others then."""
        import numpy as np

        count = len(self)
        if count < self._looked_through_at or self._groups is None:
            return
        is_held = np.zeros(count, np.bool_)
        for holder in self._holders:
            holder.mark(is_held)
        slots = np.flatnonzero(is_held)
        if 2 * len(slots) < count:
            keys, _ = self._groups.results(slots)
            self._groups = self._groups.empty()
            self._groups.slots_of(keys)
            for holder in self._holders:
                holder.keep(slots)
        self._looked_through_at = max(LEAST_SLOTS, 2 * len(self))
        self._in_hand = None


def places_within(counts: np.ndarray) -> np.ndarray:
    """Return 0, 1 and so on for each count, one behind the other: where each of so many rows stands in its group.

    Examples
    --------
    >>> import numpy as np
    >>> places_within(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    import numpy as np

    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def stable_order(numbers: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """Return the places of integers in rising order, those of equal ones as they are in `order`: by default, they rise.

    Examples
    --------
    >>> import numpy as np
    >>> stable_order(np.array([7, 5, 7, -9]))
    array([3, 1, 0, 2])
    """
    import numpy as np

    if not len(numbers):
        return np.empty(0, np.int64)
    digits = numbers.astype(np.int64).view(np.uint64) - np.uint64(int(numbers.min()) & (1 << 64) - 1)
    most, shift = int(digits.max()), 0
    while True:  # numbers of 16 bits are sorted by numpy in the time of a copy
        digit = (digits >> np.uint64(shift)).astype(np.uint16)
        order = np.argsort(digit, kind="stable") if order is None else order[np.argsort(digit[order], kind="stable")]
        shift += 16
        if shift == 64 or not most >> shift:
            return order


def _kind_of(value: object) -> str:
    import numpy as np

    if isinstance(value, np.ndarray):
        of = "booleans, of which context.slots[...] gives slots" if value.dtype == np.bool_ else str(value.dtype)
        return f"an array of {of}"
    return f"{type(value).__name__} {value!r:.80}"
