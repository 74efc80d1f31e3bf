"""Where the result partitions of whole tasks are: one table for all that read them, as bytes of little size.

Every subtask of a task reads the same partitions of the one before it, so each task manager is told the same table. A
partition's id is put together by its reader; what is left of it is an address and the number of an attempt: a table of
2,500 partitions, each at a port of its own on one of 160 hosts, has 7 KB. Flink: ShuffleDescriptorGroup.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np

from flinkbuf.errors import CorruptDataError

PARTITIONS_MAX: Final = 1 << 20  # of one table: more than subtasks a job can have
_SIZE_MAX: Final = 64 << 20  # bytes of tables before they are compressed


@dataclass(frozen=True)
class PartitionLocation:
    """A result partition, and the address of the task manager that has it. Flink: ShuffleDescriptor."""

    partition_id: str
    host: str
    port: int


@dataclass(frozen=True)
class PartitionTable:
    """The partitions that all subtasks of a task write for one edge.

    Attributes
    ----------
    vertex_id : str
        Of the task.
    partition_index : int
    managers : tuple of int
        By subtask, the number of its task manager in `Places.addresses`.
    attempt_numbers : tuple of int
        By subtask.
    """

    vertex_id: str
    partition_index: int
    managers: tuple[int, ...]
    attempt_numbers: tuple[int, ...]


def partition_id(session_id: str, vertex_id: str, subtask_index: int, attempt_number: int, partition_index: int) -> str:
    """Return the id of an attempt's partition, as Flink puts it together: data set, number, producer's attempt."""
    subtask = f"{subtask_index:08x}"
    data_set = _data_set(vertex_id, partition_index)
    return f"{data_set}{subtask}{session_id}{vertex_id}{subtask}{attempt_number:08x}"


@lru_cache(256)
def _data_set(vertex_id: str, partition_index: int) -> str:
    return blake2b(f"{vertex_id}:{partition_index}".encode(), digest_size=16).hexdigest()


class Places:
    """Where the partitions of several tasks are.

    Parameters
    ----------
    session_id : str
        Of the job master: a part of each partition's id.
    addresses : iterable of (str, int)
        Host and port of the task managers.
    tables : iterable of PartitionTable

    Examples
    --------
    >>> places = Places("5e" * 16, [("h", 4000), ("h", 4001)], [PartitionTable("0b" * 16, 0, (1, 0), (0, 3))])
    >>> again = Places.from_bytes("5e" * 16, places.to_bytes())
    >>> [(each.host, each.port, each.partition_id[-8:]) for each in again.locations(0)]
    [('h', 4001, '00000000'), ('h', 4000, '00000003')]
    """

    def __init__(self, session_id: str, addresses: Iterable[tuple[str, int]], tables: Iterable[PartitionTable]) -> None:
        self._session_id = session_id
        self._addresses = tuple(addresses)
        self._tables = tuple(tables)
        self._locations: dict[int, tuple[PartitionLocation, ...]] = {}
        self._bytes: bytes | None = None

    def locations(self, table: int) -> tuple[PartitionLocation, ...]:
        """Return where all partitions of a table are, by subtask; the same tuple each time."""
        known = self._locations.get(table)
        if known is None:
            known = self._locations[table] = tuple(self._look_up(self._tables[table]))
        return known

    def _look_up(self, table: PartitionTable) -> Iterable[PartitionLocation]:
        pairs = zip(table.managers, table.attempt_numbers, strict=True)
        for subtask, (manager, attempt_number) in enumerate(pairs):
            name = partition_id(self._session_id, table.vertex_id, subtask, attempt_number, table.partition_index)
            yield PartitionLocation(name, *self._addresses[manager])

    def check(self, table: int | None) -> None:
        """Raise CorruptDataError unless there is a table of this number."""
        if table is None or not 0 <= table < len(self._tables):
            raise CorruptDataError(f"a gate reads table {table} of partitions, and there are {len(self._tables)}")

    def to_bytes(self) -> bytes:
        """Return all tables as bytes; the same object each time."""
        if self._bytes is None:
            hosts = {host: number for number, host in enumerate(sorted({host for host, _ in self._addresses}))}
            head = {
                "hosts": list(hosts),
                "managers": len(self._addresses),
                "tables": [[each.vertex_id, each.partition_index, len(each.managers)] for each in self._tables],
            }
            parts = [json.dumps(head, separators=(",", ":")).encode(), b"\n"]
            parts += _planes([hosts[host] for host, _ in self._addresses])
            parts += _planes([port for _, port in self._addresses])
            for each in self._tables:
                parts += _planes(np.diff(each.managers, prepend=0))
                parts += _planes(each.attempt_numbers)
            self._bytes = _deflated(parts)
        return self._bytes

    @classmethod
    def from_bytes(cls, session_id: str, data: bytes) -> Places:
        """Read what `to_bytes` gave, with the session of the job master that sent it.

        Raises
        ------
        CorruptDataError
            `data` holds no tables.
        """
        try:
            return cls._read(session_id, data)
        except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
            raise CorruptDataError(f"places of partitions that cannot be read: {error}") from None

    @classmethod
    def _read(cls, session_id: str, data: bytes) -> Places:
        inflater = zlib.decompressobj()
        plain = inflater.decompress(data, _SIZE_MAX)
        if not inflater.eof or inflater.unused_data:
            raise ValueError(f"their end is missing, or they are longer than {_SIZE_MAX} bytes")
        text, _, columns = plain.partition(b"\n")
        head = json.loads(text)
        unpack = _Columns(columns)
        hosts, count = [str(each) for each in head["hosts"]], head["managers"]
        numbers, ports = unpack.next(count), unpack.next(count)
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(hosts):
            raise ValueError(f"a task manager on a host that is not among {len(hosts)}")
        addresses = [(hosts[host], port) for host, port in zip(numbers, ports, strict=True)]
        tables = []
        for vertex_id, partition_index, width in head["tables"]:
            managers = np.cumsum(unpack.next(width)).tolist()
            if managers and not 0 <= min(managers) <= max(managers) < count:
                raise ValueError(f"a partition at a task manager that is not among {count}")
            attempt_numbers = unpack.next(width)
            tables.append(PartitionTable(vertex_id, partition_index, tuple(managers), tuple(attempt_numbers)))
        unpack.check_end()
        return cls(session_id, addresses, tables)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def _all(self) -> object:
        return self._session_id, self._addresses, self._tables


def _planes(numbers: Sequence[int] | np.ndarray) -> list[bytes]:
    """Return numbers of 32 bits as four parts, the lowest bytes of all first: the higher ones are nearly all alike."""
    return [plane.tobytes() for plane in np.asarray(numbers, "<i4").view(np.uint8).reshape(-1, 4).T]


def _deflated(parts: Iterable[bytes]) -> bytes:
    """Return compressed bytes; each part has the code that fits it best."""
    deflater = zlib.compressobj(9, memLevel=9)
    return b"".join(deflater.compress(part) + deflater.flush(zlib.Z_PARTIAL_FLUSH) for part in parts) + deflater.flush()


class _Columns:
    """Columns of numbers, each as `_planes` gave it, one behind the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def next(self, count: int) -> list[int]:
        """Return the next column, which has so many numbers."""
        end = self._at + 4 * count
        if not 0 <= count <= PARTITIONS_MAX or end > len(self._data):
            raise ValueError(f"{count} numbers where {len(self._data) - self._at} bytes are left")
        planes = np.frombuffer(self._data[self._at : end], np.uint8).reshape(4, -1)
        self._at = end
        numbers: list[int] = np.ascontiguousarray(planes.T).view("<i4").ravel().tolist()
        return numbers

    def check_end(self) -> None:
        """Raise ValueError if there is more."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes more than there should be")
