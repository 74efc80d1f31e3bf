"""Records by ranges of their keys, so that channel after channel holds greater ones: what `by_range` describes.

The bounds between the channels come from a sample, which whoever has all records takes: `sample_keys` looks at some of
the records of one producer, `range_bounds` makes bounds of what all of them found. Spark: RangePartitioner,
``repartitionByRange``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flinkbuf._core.columns.range_selector import BatchRanges, RangeField, RangeSelector
from flinkbuf._core.record.channel_selector import ChannelSelector
from flinkbuf.records.arrow_batches import record_type, split_batches
from flinkbuf.records.partitioner import WHOLE_RECORD, Partitioner
from flinkbuf.types.types import TypeInformation, as_type

MAX_SAMPLE = 1_000_000  # keys of all producers together
OVERSAMPLING = 3  # a producer may have more records than others: so many times its share of the sample


@dataclass(frozen=True)
class RangePartitioner(Partitioner):
    """Records by ranges of some columns; made by `by_range`.

    Attributes
    ----------
    columns : tuple of (str, int or callable)
    ascending, nulls_first : tuple of bool
        One for each column.
    seed : int
        Decides which records a sample has.
    samples_per_channel : int
        How many keys a sample has for each channel.
    key_type : TypeInformation, optional
        Of what a function gives.
    bounds : tuple of bytes, optional
        Keys; channel i takes those up to bound i. None: nobody has taken a sample yet.
    """

    columns: tuple[object, ...]
    ascending: tuple[bool, ...]
    nulls_first: tuple[bool, ...]
    seed: int = 0
    samples_per_channel: int = 100
    key_type: TypeInformation | None = None
    bounds: tuple[bytes, ...] | None = None
    kind: ClassVar[str] = "range"

    @property
    def needs_bounds(self) -> bool:
        """Whether a sample has to be taken before records can be written."""
        return self.bounds is None

    def with_bounds(self, bounds: Sequence[bytes]) -> RangePartitioner:
        """Return the same with the bounds that `range_bounds` gave."""
        return replace(self, bounds=tuple(bounds))

    def selector(
        self, record_type: TypeInformation, channel_count: int, subtask_index: int = 0, seed: int | None = None
    ) -> ChannelSelector:
        if self.bounds is None:
            raise ValueError(
                "by_range has no bounds between the channels yet: fb.exchange takes a sample for them; elsewhere give "
                "them, with partitioner.with_bounds(range_bounds([sample_keys(records, partitioner, type)], "
                "partitioner, num_channels))"
            )
        return RangeSelector(self.range_fields(record_type), channel_count, self.bounds)

    def range_fields(self, record_type: TypeInformation) -> tuple[RangeField, ...]:
        """Where the columns lie in records of `record_type`, and how they are ordered."""
        orders = zip(self.columns, self.ascending, self.nulls_first, strict=True)
        return tuple(
            self._field(column, record_type, is_descending=not ascending, has_nulls_first=nulls_first)
            for column, ascending, nulls_first in orders
        )

    def _field(self, column: Any, record_type: TypeInformation, **order: Any) -> RangeField:
        names: tuple[str, ...] = getattr(record_type, "field_names", ())
        if callable(column):
            if self.key_type is None:
                raise ValueError("the type of what a function gives is not known: say by_range(function, key_type=...)")
            return RangeField(self.key_type.codec, function=column, **order)
        if column == WHOLE_RECORD and column not in names:
            return RangeField(record_type.codec, **order)
        if not hasattr(record_type, "field_types"):
            raise ValueError(
                f"records of {record_type!r} have no field {column!r}: by_range('{WHOLE_RECORD}') takes all of it"
            )
        if (column not in names) if isinstance(column, str) else (column >= len(names)):
            known = (
                f"the fields are {', '.join(names)}" if isinstance(column, str) else f"there are {len(names)} fields"
            )
            raise ValueError(f"the records have no field {column!r}: {known}")
        index = names.index(column) if isinstance(column, str) else column
        # Rows without declared names are taken by position, whatever their own names are: as their codec does.
        is_positional = getattr(record_type, "names", None) is None
        codec = record_type.field_types[index].codec
        return RangeField(codec, index, names[index], is_positional=is_positional, **order)


def by_range(
    *columns: object,
    ascending: bool | Sequence[bool] = True,
    nulls_first: bool | Sequence[bool] | None = None,
    key_type: object = None,
    seed: int = 0,
    samples_per_channel: int = 100,
) -> RangePartitioner:
    """Send records to channels by ranges of some columns: each channel has greater records than the one before it.

    Equal keys meet in one channel, and channels are about as full as each other, as far as a sample of the records
    can tell. Within a channel records are not sorted.

    Parameters
    ----------
    *columns : str, int or callable
        Fields by name or index, the first counts most; ``"*"`` is the whole record, a function gives the key of one.
    ascending : bool or sequence of bool, default True
        Whether the first channel has the least records; for each column, or all.
    nulls_first : bool or sequence of bool, optional
        Whether a null comes before all values; by default where the column is ascending, as in Spark.
    key_type : type, optional
        Of what a function gives, as `as_type` takes it.
    seed : int, default 0
        Another one makes another sample; the same data and the same seed give the same ranges again.
    samples_per_channel : int, default 100
        How many records are looked at for each channel; Spark's ``rangeExchange.sampleSizePerPartition``.

    Returns
    -------
    RangePartitioner

    Raises
    ------
    ValueError, TypeError
        If there is no column, or an argument is of the wrong kind. That a field is missing, or that its type has no
        order (maps, and what is pickled), is found when the record type is known.

    Notes
    -----
    The order is Spark's: -0.0 equals 0.0 and NaN is above all numbers; text is compared by its UTF-8, decimals by their
    value whatever their scale, arrays element by element and structs field by field, with nulls before values.

    References
    ----------
    Spark ``DataFrame.repartitionByRange``, ``RangePartitioner``. Flink's batch API had ``partitionByRange``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> partitioner = fb.by_range("delay", ascending=False)
    >>> flights = [("JFK", 3.0), ("BOS", None), ("LGA", 50.0), ("ORD", -8.0)]
    >>> sample = sample_keys(flights, partitioner, "origin string, delay double")
    >>> partitioner = partitioner.with_bounds(range_bounds([sample], partitioner, 2))
    >>> selector = partitioner.selector(fb.as_type("origin string, delay double"), 2)
    >>> [selector.select_channel(flight) for flight in flights]
    [0, 1, 0, 1]
    """
    if not columns:
        raise ValueError("by_range needs a column: a field's name or index, or '*' for the whole record")
    for column in columns:
        if isinstance(column, bool) or not (isinstance(column, (str, int)) or callable(column)):
            raise TypeError(f"a column is a field's name or index, or a function of the record; got {column!r}")
        if isinstance(column, int) and column < 0:
            raise ValueError(f"a column's index counts from 0, got {column}")
    if samples_per_channel < 1:
        raise ValueError(f"samples_per_channel must be at least 1, got {samples_per_channel}")
    directions = _one_each("ascending", ascending, len(columns))
    firsts = directions if nulls_first is None else _one_each("nulls_first", nulls_first, len(columns))
    given = None if key_type is None else as_type(key_type)
    return RangePartitioner(tuple(columns), directions, firsts, seed, samples_per_channel, given)


def _one_each(what: str, given: bool | Sequence[bool], count: int) -> tuple[bool, ...]:
    values = (given,) * count if isinstance(given, bool) else tuple(given)
    if len(values) != count or not all(isinstance(value, bool) for value in values):
        raise ValueError(f"{what} must be a bool, or {count} of them, one a column; got {given!r}")
    return values


@dataclass(frozen=True)
class KeySample:
    """Keys of some records of one producer, each as likely as any other.

    Attributes
    ----------
    count : int
        How many records the producer has.
    keys : tuple of bytes
    """

    count: int
    keys: tuple[bytes, ...]


def sample_size(partitioner: RangePartitioner, channel_count: int, producer_count: int) -> int:
    """Return how many keys one producer's sample has, as Spark counts them."""
    wanted = min(partitioner.samples_per_channel * channel_count, MAX_SAMPLE)
    return math.ceil(OVERSAMPLING * wanted / max(1, producer_count))


def sample_keys(
    source: object, partitioner: RangePartitioner, type: object, *, size: int = MAX_SAMPLE, producer_index: int = 0
) -> KeySample:
    """Return the keys of some records of one producer, in one pass and with memory for these only.

    Parameters
    ----------
    source : iterable
        Records, or batches of columns; as `write_buffers` takes them.
    partitioner : RangePartitioner
    type : type
        Of the records; for batches their pyarrow schema does.
    size : int
        How many at most; `sample_size`.
    producer_index : int, default 0
        Each producer has random numbers of its own.
    """
    chance = random.Random(partitioner.seed * 0x9E3779B1 + producer_index)
    reservoir = _Reservoir(size, chance)
    batches, records = split_batches(source)
    if batches is None:
        selector = RangeSelector(partitioner.range_fields(record_type(type)), 1, ())
        for record in records:
            if reservoir.count == reservoir.next:
                reservoir.take(selector.key_of(record))
            reservoir.count += 1
        return KeySample(reservoir.count, tuple(reservoir.keys))
    return _sample_batches(batches, partitioner, type, reservoir)


def _sample_batches(batches: Any, partitioner: RangePartitioner, type: object, reservoir: _Reservoir) -> KeySample:
    known = record_type(type)
    ranges = BatchRanges(RangeSelector(partitioner.range_fields(known), 1, ()))
    for batch in batches:
        first, end = reservoir.count, reservoir.count + len(batch)
        while reservoir.next < end:
            (key,) = ranges.keys_of(known.codec, batch, (reservoir.next - first,))
            reservoir.take(key)
        reservoir.count = end
    return KeySample(reservoir.count, tuple(reservoir.keys))


class _Reservoir:
    """A sample of a stream of unknown length; says which record it wants next. Li's algorithm L."""

    def __init__(self, size: int, chance: random.Random) -> None:
        self.size = size
        self.keys: list[bytes] = []
        self.count = 0  # records that have passed
        self.next = 0  # which of them is wanted
        self._chance = chance
        self._w = 1.0

    def take(self, key: bytes) -> None:
        """Keep the key of the record that was wanted."""
        if len(self.keys) < self.size:
            self.keys.append(key)
            if len(self.keys) < self.size:
                self.next += 1
                return
        else:
            self.keys[self._chance.randrange(self.size)] = key
        self._w *= math.exp(math.log(1.0 - self._chance.random()) / self.size)
        share = min(max(self._w, 1e-300), 1.0 - 1e-16)
        self.next += 1 + int(min(math.log(1.0 - self._chance.random()) / math.log1p(-share), 2.0**62))


def range_bounds(samples: Iterable[object], partitioner: RangePartitioner, channel_count: int) -> tuple[bytes, ...]:
    """Return the bounds between channels: fewer than there are channels, each above the one before.

    Parameters
    ----------
    samples : iterable of KeySample, or of batches
        What `sample_keys` found with each producer, in any order. Batches that have the columns are one sample, all of
        it.
    partitioner : RangePartitioner
    channel_count : int
        Where fewer keys differ than there are channels, the last channels stay empty.

    References
    ----------
    Spark ``RangePartitioner.determineBounds``.
    """
    weighed = sorted(_weighed(samples, partitioner))
    step = sum(weight for _, weight in weighed) / max(1, channel_count)
    bounds: list[bytes] = []
    passed, target = 0.0, step
    for key, weight in weighed:
        if len(bounds) >= channel_count - 1:
            break
        passed += weight
        if passed >= target and (not bounds or key > bounds[-1]):
            bounds.append(key)
            target += step
    return tuple(bounds)


def _weighed(samples: Iterable[object], partitioner: RangePartitioner) -> Iterator[tuple[bytes, float]]:
    for each in samples:
        sample = each if isinstance(each, KeySample) else sample_keys(each, partitioner, _schema_of(each))
        for key in sample.keys:
            yield key, sample.count / len(sample.keys)


def _schema_of(batch: object) -> object:
    """The pyarrow schema of a batch of any kind."""
    import pyarrow as pa

    if hasattr(batch, "schema") and isinstance(batch.schema, pa.Schema):
        return batch.schema
    return pa.record_batch(batch).schema
