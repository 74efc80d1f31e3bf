"""Which channel each record goes to, described so that it can be pickled; and the key groups behind `by_key`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flinkbuf._core.record import key_group as _key_group
from flinkbuf._core.record.channel_selector import ChannelSelector, CustomSelector, KeyField, KeyGroupSelector
from flinkbuf._core.record.key_group import KeyHasher, check_parallelism
from flinkbuf._core.record.plain_function import quickened
from flinkbuf.types.types import RowDataTypeInfo, TypeInformation, as_type, object_type

if TYPE_CHECKING:
    import numpy as np

NAMES = ("rebalance", "rescale", "shuffle", "global", "forward", "broadcast")
WHOLE_RECORD = "*"

# Java hashes these classes in ways of their own, though their bytes are those of the plain types.
_ODD_HASHES = {"BOOLEAN_VALUE": "BOOLEAN", "LONG_VALUE": "LONG", "DOUBLE_VALUE": "DOUBLE"}


@dataclass(frozen=True)
class Partitioner:
    """How records are spread over channels; a description without state. Flink's ``StreamPartitioner``."""

    kind: ClassVar[str]

    def selector(
        self, record_type: TypeInformation, channel_count: int, subtask_index: int = 0, seed: int | None = None
    ) -> ChannelSelector:
        """Make what chooses the channels for one producer.

        Parameters
        ----------
        record_type : TypeInformation
            Of the records, as they are written.
        channel_count : int
            How many channels this producer writes to.
        subtask_index : int, default 0
            Which producer it is; with `seed`, each one gets random numbers of its own.
        seed : int, optional
            Makes random choices come out the same again; without it they never do.

        Returns
        -------
        ChannelSelector
            Has the state (whose turn it is): one writer's own.

        Raises
        ------
        ValueError
            If `channel_count` is less than 1, or the partitioner does not fit the record type.
        """
        raise TypeError(f"{type(self).__name__} describes no partitioner by itself")


@dataclass(frozen=True)
class NamedPartitioner(Partitioner):
    """A partitioner that looks at no record, by its name in `NAMES`."""

    kind: str  # type: ignore[misc]  # a field here, a constant of the other classes

    def __post_init__(self) -> None:
        if self.kind not in NAMES:
            raise ValueError(
                f"no partitioner is named {self.kind!r}; there are {', '.join(NAMES)}, and by_key({self.kind!r}) sends "
                "records with equal values of that field to one channel"
            )

    def selector(
        self, record_type: TypeInformation, channel_count: int, subtask_index: int = 0, seed: int | None = None
    ) -> ChannelSelector:
        if seed is None:
            return ChannelSelector(self.kind, channel_count, int.from_bytes(os.urandom(8), "big"))
        far_apart = 0xD1342543DE82EF95 * subtask_index  # for neighbouring subtasks
        return ChannelSelector(self.kind, channel_count, seed + far_apart)


@dataclass(frozen=True)
class CustomPartitioner(Partitioner):
    """A function ``(record, num_channels) -> int`` of the user. Flink's ``CustomPartitionerWrapper``."""

    function: Callable[[object, int], int]
    kind: ClassVar[str] = "custom"

    def selector(
        self, record_type: TypeInformation, channel_count: int, subtask_index: int = 0, seed: int | None = None
    ) -> ChannelSelector:
        return CustomSelector(self.function, channel_count)


@dataclass(frozen=True)
class KeyPartitioner(Partitioner):
    """Equal keys to one channel; made by `by_key`. Flink's ``KeyGroupStreamPartitioner``."""

    key: Any
    key_type: TypeInformation | None = None
    max_parallelism: int | None = None
    kind: ClassVar[str] = "key_group"

    def __post_init__(self) -> None:
        for part in self.key if isinstance(self.key, tuple) else (self.key,):
            if isinstance(part, bool) or not (isinstance(part, (str, int)) or callable(part)):
                raise TypeError(f"a key is a field's name or index, a tuple of these, or a function; got {part!r}")
            if isinstance(part, int) and part < 0:
                raise ValueError(f"a key's index counts from 0, got {part}")
        if self.key == ():
            raise ValueError("a key needs at least one field, got ()")
        if self.max_parallelism is not None:
            check_parallelism(self.max_parallelism)

    def selector(
        self, record_type: TypeInformation, channel_count: int, subtask_index: int = 0, seed: int | None = None
    ) -> ChannelSelector:
        max_parallelism = self.max_parallelism
        if max_parallelism is None:
            max_parallelism = default_max_parallelism(channel_count)
        fields = self.key_fields(record_type)
        return KeyGroupSelector(fields, channel_count, max_parallelism, self._row_hasher(record_type))

    def _row_hasher(self, record_type: TypeInformation) -> KeyHasher | None:
        """In rows of the table runtime, fields that are a key are a row themselves."""
        parts = self.key if isinstance(self.key, tuple) else (self.key,)
        if not isinstance(record_type, RowDataTypeInfo) or any(map(callable, parts)):
            return None
        names = record_type.field_names
        if self.key == WHOLE_RECORD and self.key not in names:
            return None
        places = [names.index(part) if isinstance(part, str) else part for part in parts]
        types = tuple(record_type.field_types[place] for place in places)
        return _hasher(RowDataTypeInfo(types, tuple(f"f{i}" for i in range(len(types)))))

    def key_fields(self, record_type: TypeInformation) -> tuple[KeyField, ...]:
        """Where the key lies in records of `record_type`, and how it is hashed."""
        if not isinstance(self.key, tuple):
            return (_key_field(self.key, record_type, self.key_type),)
        types = getattr(self.key_type, "field_types", None)
        if self.key_type is not None and (types is None or len(types) != len(self.key)):
            raise ValueError(
                f"the key {self.key!r} has {len(self.key)} fields, so key_type must be a TUPLE of them; "
                f"got {self.key_type!r}"
            )
        parts = zip(self.key, types or (None,) * len(self.key), strict=True)
        return tuple(_key_field(key, record_type, key_type) for key, key_type in parts)


def by_key(key: object, key_type: object = None, max_parallelism: int | None = None) -> KeyPartitioner:
    """Send records with equal keys to one channel.

    The key's Java hash code decides over its key group, and that over the channel, exactly as in Flink; so it is
    the same in every process and for every producer.

    Parameters
    ----------
    key : str, int, callable or tuple
        A field's name or index; or a function of the record that gives the key; or a tuple of several, whose values
        together are the key (hashed as Flink's ``Tuple``; fields of a ``ROW_DATA`` as Flink SQL's ``BinaryRowData``,
        in which None is a value); or ``"*"``, the whole record.
    key_type : type, optional
        The key's type, as `as_type` takes it. Needed for records whose type has no fields; a field's own type is
        known from the record type. What a function gives needs none: an int or an ASCII text hashes as a LONG or
        STRING, any other value over its parts, and 1, 1.0 and True are three keys, as in PyFlink.
    max_parallelism : int, optional
        How many key groups there are, 1 to 32768; by default `default_max_parallelism` of the channel count.

    Returns
    -------
    KeyPartitioner

    Raises
    ------
    TypeError, ValueError
        If an argument is none of these. That a field is missing, that a type cannot be a key (arrays, enums and
        pickled objects have no hash of their value), and that there are more channels than key groups is found
        when the record type is known, as a ValueError. A record whose key is None raises ValueError, unless the
        key's type was not declared: then None is a key.

    References
    ----------
    Flink ``DataStream.keyBy``, ``KeyGroupRangeAssignment``; values in ``tests/golden/keygroups``.

    Examples
    --------
    >>> selector = by_key("origin").selector(as_type("origin string, delay double"), 4)
    >>> [selector.select_channel(record) for record in [("JFK", 1.5), ("BOS", 0.0), ("JFK", 7.0)]]
    [3, 0, 3]
    >>> selector = by_key(lambda text: len(text), key_type="int").selector(as_type("string"), 4)
    >>> selector.select_channel("abc") == selector.select_channel("xyz")
    True
    """
    if isinstance(key, list):
        key = tuple(key)
    return KeyPartitioner(key, None if key_type is None else as_type(key_type), max_parallelism)


def as_partitioner(partitioner: object) -> Partitioner:
    """Take a `Partitioner` as it is, and make one of a name or of a function ``(record, num_channels) -> int``.

    Parameters
    ----------
    partitioner : Partitioner, str or callable
        ``"rebalance"`` (by turns, from a random channel on), ``"rescale"`` (by turns, over this producer's own
        consumers), ``"shuffle"`` (at random), ``"global"`` (channel 0), ``"forward"`` (the one consumer that
        belongs to this producer) or ``"broadcast"`` (every channel); or a function.

    Raises
    ------
    ValueError
        If no partitioner has that name.
    TypeError
        If it is none of these.

    Examples
    --------
    >>> as_partitioner("rebalance")
    NamedPartitioner(kind='rebalance')
    """
    if isinstance(partitioner, Partitioner):
        return partitioner
    if isinstance(partitioner, str):
        return NamedPartitioner(partitioner)
    if callable(partitioner):
        return CustomPartitioner(partitioner)
    raise TypeError(
        f"a partitioner is by_key(...), one of {', '.join(NAMES)}, or a function (record, num_channels) -> int; "
        f"got {partitioner!r}"
    )


def pointwise_targets(subtask_index: int, producers: int, consumers: int) -> range:
    """Return the consumers that one producer feeds under ``"forward"`` and ``"rescale"``.

    Parameters
    ----------
    subtask_index : int
        Which producer, from 0.
    producers, consumers : int
        How many there are.

    Returns
    -------
    range
        One consumer where there are as many producers or more; else this producer's share.

    References
    ----------
    Flink ``VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise``.

    Examples
    --------
    >>> [list(pointwise_targets(i, 2, 5)) for i in range(2)], [list(pointwise_targets(i, 3, 2)) for i in range(3)]
    ([[0, 1, 2], [3, 4]], [[0], [1], [1]])
    """
    if producers < 1 or consumers < 1:
        raise ValueError(f"producers and consumers must be at least 1, got {producers} and {consumers}")
    if not 0 <= subtask_index < producers:
        raise ValueError(f"subtask index must be from 0 to {producers - 1}, got {subtask_index}")
    if producers >= consumers:
        target = ((subtask_index + 1) * consumers - 1) // producers
        return range(target, target + 1)
    # Upside-down floor division rounds up.
    return range(-(-subtask_index * consumers // producers), -(-(subtask_index + 1) * consumers // producers))


def key_group(key: object, key_type: object, max_parallelism: int) -> int:
    """Return the key group of `key`. Flink's ``assignToKeyGroup``.

    Parameters
    ----------
    key : object
        A value of `key_type`.
    key_type : type
        As `as_type` takes it.
    max_parallelism : int
        How many key groups there are, 1 to 32768.

    Raises
    ------
    TypeError, OverflowError, ValueError
        If `key` is not of its type, or is None; or an argument is out of range.

    Examples
    --------
    >>> key_group("flink", "string", 128)
    98
    """
    return _key_group.key_group_of_hash(_hasher(as_type(key_type)).hash_code(key), max_parallelism)


def key_groups(keys: object, key_type: object, max_parallelism: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the key groups of a column of keys: `key_group` for a whole array at once.

    Parameters
    ----------
    keys : array_like
        One-dimensional; an array of numbers that fit `key_type` without loss is hashed without the GIL.
    key_type, max_parallelism
        As for `key_group`.

    Examples
    --------
    >>> import numpy as np
    >>> key_groups(np.arange(4), "bigint", 128)
    array([ 94,  86, 127, 113], dtype=uint32)
    """
    return _key_group.key_groups_of_hashes(_hasher(as_type(key_type)).hash_codes(keys), max_parallelism)


def key_group_range(max_parallelism: int, parallelism: int, subtask_index: int) -> range:
    """Return the key groups that a subtask owns. Flink's ``computeKeyGroupRangeForOperatorIndex``.

    Examples
    --------
    >>> [key_group_range(128, 3, i) for i in range(3)]
    [range(0, 43), range(43, 86), range(86, 128)]
    """
    first, last = _key_group.key_group_range(max_parallelism, parallelism, subtask_index)
    return range(first, last + 1)


def default_max_parallelism(parallelism: int) -> int:
    """Return how many key groups Flink makes when nobody says: 1.5 times the parallelism, up to a power of two.

    At least 128 and at most 32768; it can not be changed later without moving state between subtasks in another
    way. Flink's ``computeDefaultMaxParallelism``.

    Examples
    --------
    >>> default_max_parallelism(8), default_max_parallelism(100)
    (128, 256)
    """
    return _key_group.default_max_parallelism(parallelism)


def _hasher(key_type: TypeInformation) -> KeyHasher:
    odd = next(_odd_types(key_type), None)
    if odd is not None:
        raise ValueError(
            f"{key_type!r} cannot be a key: Java hashes {odd} in a way of its own; key by a function "
            f"with key_type {_ODD_HASHES[odd]}"
        )
    try:
        return KeyHasher(key_type.codec)
    except ValueError as error:
        raise ValueError(f"{key_type!r} cannot be a key: {error}") from None


def _odd_types(key_type: TypeInformation) -> Any:
    name = getattr(key_type, "name", None)
    if name in _ODD_HASHES:
        yield name
    for child in key_type.children:
        yield from _odd_types(child)


def _key_field(key: Any, record_type: TypeInformation, key_type: TypeInformation | None) -> KeyField:
    """Resolve one part of a key against the type of the records."""
    names: tuple[str, ...] = getattr(record_type, "field_names", ())
    if callable(key):
        return KeyField(_hasher(object_type() if key_type is None else key_type), function=quickened(key))
    if key == WHOLE_RECORD and key not in names:
        return KeyField(_hasher(_agreed(key, record_type, key_type)))
    if not hasattr(record_type, "field_types"):
        if key_type is None and record_type == object_type():
            key_type = record_type
        if key_type is None:
            raise ValueError(
                f"records of {record_type!r} have no fields, so the type of key {key!r} is not known: "
                'name it with key_type=, or key by the whole record with by_key("*")'
            )
        if isinstance(key, str):
            return KeyField(_hasher(key_type), name=key)
        return KeyField(_hasher(key_type), index=key)
    if (key not in names) if isinstance(key, str) else (key >= len(names)):
        known = f"the fields are {', '.join(names)}" if isinstance(key, str) else f"there are {len(names)} fields"
        raise ValueError(f"the records have no field {key!r}: {known}")
    index = names.index(key) if isinstance(key, str) else key
    field_type = _agreed(key, record_type.field_types[index], key_type)
    # Rows without declared names are taken by position, whatever their own names are: as their codec does.
    is_positional = getattr(record_type, "names", None) is None
    if isinstance(record_type, RowDataTypeInfo):  # whose fields are hashed as a row
        field_type = RowDataTypeInfo((field_type,), (names[index],))
    return KeyField(_hasher(field_type), index=index, name=names[index], is_positional=is_positional)


def _agreed(key: object, known: TypeInformation, given: TypeInformation | None) -> TypeInformation:
    if given is not None and given != known:
        raise ValueError(
            f"key {key!r} is of {known!r} in the records, but key_type is {given!r}; leave key_type out, "
            "or key by a function that converts"
        )
    return known
