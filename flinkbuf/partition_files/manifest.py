"""The manifest of a data set: which files it is made of, what is in them, and how rows found their subpartitions.

One JSON document, with a checksum over the rest of it. It is written once and never changed: a later version of the
data set has a manifest of its own, with a higher number. Whoever meets a manifest that he cannot read stops: the one
before it would show old rows as if they were today's.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from flinkbuf.errors import CorruptDataError

T = TypeVar("T")

FORMAT = "flinkbuf partition files"
FORMAT_VERSION = 2  # 1 knew neither generations nor batches
HASH = "flink-key-group"  # Flink's key groups, as fb.by_key spreads them
ROW_FORMAT = "flink-row"  # bytes of Flink's RowSerializer, framed by its record serializer
SUBPARTITION_MAX = 32_768
SIZE_MAX = 1 << 62
SEGMENT_MAX = 1 << 30
COMPRESSIONS = (None, "LZ4", "ZSTD")
_FILE_NAME = re.compile(r"part-[0-9a-f]{16}-[0-9]{5,}-[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True)
class DataFile:
    """One partition file of a data set: what one task has written.

    Attributes
    ----------
    name : str
        ``part-<job>-<task>-<random>``; in ``data`` it stands for ``<name>.shuffle.data`` and ``<name>.shuffle.index``.
    data_size, index_size : int
        Bytes of the two files.
    index_crc32 : int
        Checksum of the whole index.
    records, sizes : tuple of int
        Of each subpartition: how many records, how many bytes in the file.
    checksums : tuple of int
        CRC 32 of each subpartition's bytes in the file, one region after the other.
    segment_size : int
        Bytes of the largest buffer.
    compression : str or None
        What its buffers are compressed with; each of them says whether it is.
    key_min, key_max : str or None
        The smallest and the largest key as text, if the key is one column of an ordered type and has a value.
    """

    name: str
    data_size: int
    index_size: int
    index_crc32: int
    records: tuple[int, ...]
    sizes: tuple[int, ...]
    checksums: tuple[int, ...]
    segment_size: int
    compression: str | None = None
    key_min: str | None = None
    key_max: str | None = None

    @property
    def record_count(self) -> int:
        """Records of all subpartitions."""
        return sum(self.records)


@dataclass(frozen=True)
class Layout:
    """What all files of a data set have in common; appended ones must have the same.

    Attributes
    ----------
    schema : mapping
        Spark's JSON of the rows' columns.
    record_type : str
        The type of the rows as flinkbuf writes them.
    key : tuple of str
        The columns that decide over the subpartition; none: rows are dealt out in turn.
    subpartition_count : int
        Of each file.
    max_parallelism : int
        Key groups, of which each subpartition has a range.
    """

    schema: Mapping[str, object]
    record_type: str
    key: tuple[str, ...]
    subpartition_count: int
    max_parallelism: int


@dataclass(frozen=True)
class Manifest:
    """One version of a data set.

    Attributes
    ----------
    version : int
        From 1; also the name of the file.
    job : str
        Who wrote it.
    created_ms : int
        When, in milliseconds since 1970.
    operation : {"overwrite", "append", "compact"}
        Whether the files of the version before are still among them; or a run of them was rewritten as one.
    layout : Layout
    files : tuple of DataFile
        In the order in which they were appended.
    generation : str
        The job of the last overwrite, or else of the first version. Within a generation each subpartition is a log:
        what is appended stands behind what was there. Empty: written by a flinkbuf that knew no generations.
    batches : mapping of str to int
        Of each writer that numbers its commits, such as a streaming query: the last number that is committed.
    parent : str
        The job of the version that this one was built upon. Empty for an overwrite, and where nobody noted it.

    Examples
    --------
    >>> layout = Layout({"type": "struct", "fields": []}, "Types.ROW([])", (), 4, 128)
    >>> manifest = Manifest(1, "0123456789abcdef", 0, "append", layout, ())
    >>> Manifest.parse(manifest.to_bytes(), "1.json") == manifest
    True
    """

    version: int
    job: str
    created_ms: int
    operation: str
    layout: Layout
    files: tuple[DataFile, ...] = field(default=())
    generation: str = ""
    batches: Mapping[str, int] = field(default_factory=dict)
    parent: str = ""

    @property
    def record_count(self) -> int:
        """Records of all files."""
        return sum(each.record_count for each in self.files)

    @property
    def data_size(self) -> int:
        """Bytes of all data files."""
        return sum(each.data_size for each in self.files)

    def to_bytes(self) -> bytes:
        """The document."""
        body = {
            "version": self.version,
            "job": self.job,
            "created_ms": self.created_ms,
            "operation": self.operation,
            "row_format": ROW_FORMAT,
            "hash": HASH,
            **vars(self.layout),
            "files": [vars(each) for each in self.files],
            "generation": self.generation,
            "batches": dict(self.batches),
            "parent": self.parent,
        }
        text = _canonical(body)
        head = _canonical({"format": FORMAT, "format_version": FORMAT_VERSION, "crc32": _checksum(text)})
        return f'{head[:-1]},"body":{text}}}\n'.encode()

    @classmethod
    def parse(cls, data: bytes, path: str) -> Manifest:
        """Read a document.

        Parameters
        ----------
        data : bytes
            The whole file.
        path : str
            Where it lies, for messages.

        Raises
        ------
        CorruptDataError
            If it is cut off, changed, something else, or of a later version of flinkbuf; the message names the file
            and where in it.
        """
        reader = _Reader(path)
        document = reader.document(data)
        body = reader.member(document, "body", dict, "")
        if reader.member(document, "crc32", str, "") != _checksum(_canonical(body)):
            raise reader.damaged("crc32", "the checksum is that of another text: the file was changed or damaged")
        for name, known in (("row_format", ROW_FORMAT), ("hash", HASH)):
            if reader.member(body, name, str, "body") != known:
                raise reader.unknown(f"body.{name}", body[name], known)
        layout = reader.layout(body)
        files = reader.member(body, "files", list, "body")
        return cls(
            reader.number(body, "version", 1, SIZE_MAX, "body"),
            reader.member(body, "job", str, "body"),
            reader.number(body, "created_ms", 0, SIZE_MAX, "body"),
            reader.member(body, "operation", str, "body"),
            layout,
            tuple(reader.file(each, layout, f"body.files[{index}]") for index, each in enumerate(files)),
            reader.optional_text(body, "generation", "body") or "",
            reader.batches(body),
            reader.optional_text(body, "parent", "body") or "",
        )


class _Reader:
    """Takes a document apart and knows, for its sentences, where it is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def damaged(self, place: str, problem: str) -> CorruptDataError:
        return CorruptDataError(f"{self.path}: at {place}: {problem}")

    def unknown(self, place: str, found: object, known: object) -> CorruptDataError:
        return self.damaged(
            place,
            f"{found!r} is not known to this flinkbuf, which reads {known!r}; a later version may have written it",
        )

    def document(self, data: bytes) -> dict[str, object]:
        try:
            document = json.loads(data)
        except UnicodeDecodeError as error:
            raise self.damaged(f"byte {error.start}", "this is no text, and so no manifest") from None
        except json.JSONDecodeError as error:
            end = " (the file ends there)" if error.pos >= len(error.doc.rstrip()) else ""
            offset = len(error.doc[: error.pos].encode())
            raise self.damaged(f"byte {offset}", f"this is no JSON{end}: {error.msg}") from None
        except RecursionError:
            raise self.damaged("byte 0", "this is nested too deep for a manifest") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise self.damaged("byte 0", f"this is no manifest of {FORMAT}")
        version = self.number(document, "format_version", 1, SIZE_MAX, "")
        if version > FORMAT_VERSION:
            raise self.unknown("format_version", version, FORMAT_VERSION)
        return document

    def member(self, of: dict[str, object], name: str, kind: type[T], where: str) -> T:
        place = f"{where}.{name}" if where else name
        if name not in of:
            raise self.damaged(place, "this is missing")
        value = of[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.damaged(place, f"{kind.__name__} must stand here, not {value!r:.80}")
        return value

    def number(self, of: dict[str, object], name: str, least: int, most: int, where: str) -> int:
        value: int = self.member(of, name, int, where)
        self._check_range(value, least, most, f"{where}.{name}" if where else name)
        return value

    def _check_range(self, value: int, least: int, most: int, place: str) -> None:
        if not least <= value <= most:
            raise self.damaged(place, f"{value} is not between {least} and {most}")

    def texts(self, of: dict[str, object], name: str, where: str) -> tuple[str, ...]:
        values = self.member(of, name, list, where)
        if not all(isinstance(each, str) for each in values):
            raise self.damaged(f"{where}.{name}", "a list of texts must stand here")
        return tuple(values)

    def layout(self, body: dict[str, object]) -> Layout:
        schema = self.member(body, "schema", dict, "body")
        key = self.texts(body, "key", "body")
        names = [field.get("name") for field in schema.get("fields", ()) if isinstance(field, dict)]
        if missing := [each for each in key if each not in names]:
            raise self.damaged("body.key", f"the schema has no column {missing[0]!r}")
        return Layout(
            schema,
            self.member(body, "record_type", str, "body"),
            key,
            self.number(body, "subpartition_count", 1, SUBPARTITION_MAX, "body"),
            self.number(body, "max_parallelism", 1, SUBPARTITION_MAX, "body"),
        )

    def file(self, found: object, layout: Layout, where: str) -> DataFile:
        if not isinstance(found, dict):
            raise self.damaged(where, f"dict must stand here, not {found!r:.80}")
        name = self.member(found, "name", str, where)
        if not _FILE_NAME.fullmatch(name):  # a name with slashes would lead out of the data set
            raise self.damaged(f"{where}.name", f"{name!r:.80} is no name of a data file")
        compression = self.optional_text(found, "compression", where)
        if compression not in COMPRESSIONS:
            raise self.unknown(f"{where}.compression", compression, "LZ4, ZSTD or null")
        return DataFile(
            name,
            self.number(found, "data_size", 0, SIZE_MAX, where),
            self.number(found, "index_size", 0, SIZE_MAX, where),
            self.number(found, "index_crc32", 0, 0xFFFF_FFFF, where),
            self.counts(found, "records", layout, where),
            self.counts(found, "sizes", layout, where),
            self.counts(found, "checksums", layout, where),
            self.number(found, "segment_size", 1, SEGMENT_MAX, where),
            compression,
            self.optional_text(found, "key_min", where),
            self.optional_text(found, "key_max", where),
        )

    def counts(self, of: dict[str, object], name: str, layout: Layout, where: str) -> tuple[int, ...]:
        values = self.member(of, name, list, where)
        place = f"{where}.{name}"
        if len(values) != layout.subpartition_count:
            raise self.damaged(place, f"{len(values)} numbers for {layout.subpartition_count} subpartitions")
        for index, value in enumerate(values):
            if type(value) is not int:
                raise self.damaged(f"{place}[{index}]", f"int must stand here, not {value!r:.80}")
            self._check_range(value, 0, SIZE_MAX, f"{place}[{index}]")
        return tuple(values)

    def batches(self, body: dict[str, object]) -> dict[str, int]:
        found = self.member(body, "batches", dict, "body") if "batches" in body else {}
        return {name: self.number(found, name, 0, SIZE_MAX, "body.batches") for name in found}

    def optional_text(self, of: dict[str, object], name: str, where: str) -> str | None:
        return None if of.get(name) is None else self.member(of, name, str, where)


def file_name(job: str, task: int, random: str) -> str:
    """The name of a task's data file.

    Examples
    --------
    >>> file_name("0123456789abcdef", 7, "89abcdef")
    'part-0123456789abcdef-00007-89abcdef'
    """
    return f"part-{job}-{task:05d}-{random}"


def job_of(name: str) -> str | None:
    """Who wrote the file of that name; None if it is no data file's.

    Examples
    --------
    >>> job_of("part-0123456789abcdef-00007-89abcdef.shuffle.index"), job_of("notes.txt")
    ('0123456789abcdef', None)
    """
    found = _FILE_NAME.match(name)
    return found[0].split("-")[1] if found else None


def names_of_files(document: bytes) -> set[str]:
    """Names of data files that stand anywhere in a document.

    Examples
    --------
    >>> names_of_files(b'{"name":"part-0123456789abcdef-00007-89abcdef"}')
    {'part-0123456789abcdef-00007-89abcdef'}
    """
    return {found[0] for found in _FILE_NAME.finditer(document.decode(errors="replace"))}


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def layout_difference(old: Layout, new: Layout) -> str | None:
    """What keeps files of one layout out of a data set of another, besides the schema; None: nothing does."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("key", list(old.key), list(new.key)),
        ("num_partitions", old.subpartition_count, new.subpartition_count),
        ("max_parallelism", old.max_parallelism, new.max_parallelism),
    )
    for name, left, right in pairs:
        if left != right:
            return f"its {name} is {left!r}, that of the new rows {right!r}"
    return None
