"""What users say to `df.write.format("flinkbuf")` and `spark.read.format("flinkbuf")`, read and checked."""

from __future__ import annotations

import decimal
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from flinkbuf.config import parse_duration_ms, parse_size
from flinkbuf.partition_files.compaction import COMPACT_FILES
from flinkbuf.partition_files.data_set import RETENTION_S
from flinkbuf.partition_files.manifest import COMPRESSIONS, SUBPARTITION_MAX

WRITE = ("key", "num_partitions", "compression", "if_exists", "retention", "memory", "writer", "batch", "compact_files")
READ = ("keys", "subpartitions", "pushdown", "task_size", "max_rows", "starting", "max_rows_per_trigger")
SPARKS = ("path", "checkpointlocation", "queryname")  # what Spark says by options, too
IF_EXISTS = ("append", "error", "ignore")
STARTING = ("earliest", "latest")
DEFAULT_PARTITIONS = 64
DEFAULT_MEMORY = 64 << 20  # bytes of buffers for each task that writes
DEFAULT_MAX_ROWS = 65_536


@dataclass(frozen=True)
class WriteOptions:
    """Options of a write.

    Examples
    --------
    >>> WriteOptions.of({"path": "/data", "key": "origin, dest", "num_partitions": "8"}).key
    ('origin', 'dest')
    """

    path: str
    key: tuple[str, ...] = ()
    num_partitions: int = DEFAULT_PARTITIONS
    compression: str | None = None
    if_exists: str = "append"
    retention_s: float = RETENTION_S
    memory: int = DEFAULT_MEMORY
    batch: tuple[str, int] | None = None  # a writer's name, and which of its commits this is
    compact_files: int = COMPACT_FILES  # 0: none are compacted

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read them; ValueError names the one that is wrong."""
        return cls(
            _path(options),
            _names(options.get("key", "")),
            _number("num_partitions", options.get("num_partitions", str(DEFAULT_PARTITIONS)), SUBPARTITION_MAX),
            _compression(options.get("compression", "none")),
            _choice("if_exists", options.get("if_exists", "append"), IF_EXISTS),
            _named("retention", parse_duration_ms, options.get("retention", f"{int(RETENTION_S)} s")) / 1000,
            _named("memory", parse_size, options.get("memory", str(DEFAULT_MEMORY))),
            _batch(options.get("writer"), options.get("batch")),
            _number("compact_files", options.get("compact_files", str(COMPACT_FILES)), 1 << 30, least=0),
        )


@dataclass(frozen=True)
class ReadOptions:
    """Options of a read.

    Examples
    --------
    >>> options = ReadOptions.of({"path": "/data", "subpartitions": "0, 4-6", "keys": '["N14228"]'})
    >>> options.keys, sorted(options.subpartitions)
    ((('N14228',),), [0, 4, 5, 6])
    """

    path: str
    keys: tuple[tuple[object, ...], ...] | None = None  # values as JSON has them
    subpartitions: frozenset[int] | None = None
    pushdown: bool | None = None  # None: where it is safe
    task_size: int | None = None  # None: what suits the data
    max_rows: int = DEFAULT_MAX_ROWS
    starting: str = "earliest"
    max_rows_per_trigger: int | None = None  # None: all that there are

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read them; ValueError names the one that is wrong."""
        pushdown = options.get("pushdown")
        per_trigger = options.get("max_rows_per_trigger")
        return cls(
            _path(options),
            _keys(options.get("keys")),
            _ranges(options.get("subpartitions")),
            None if pushdown is None else _choice("pushdown", pushdown, ("true", "false")) == "true",
            max(1, _named("task_size", parse_size, options["task_size"])) if "task_size" in options else None,
            _number("max_rows", options.get("max_rows", str(DEFAULT_MAX_ROWS)), 1 << 24),
            _choice("starting", options.get("starting", "earliest"), STARTING),
            None if per_trigger is None else _number("max_rows_per_trigger", per_trigger, 1 << 62),
        )


def _path(options: Mapping[str, str]) -> str:
    unknown = sorted(name for name in options if name.lower() not in (*SPARKS, *WRITE, *READ))
    if unknown:
        raise ValueError(f"there is no option {unknown[0]!r}; there are {', '.join((*WRITE, *READ))}")
    path = options.get("path")
    if not path:
        raise ValueError("a data set of partition files needs a path: save(path) or load(path)")
    return path


def _names(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        found = _named("key", json.loads, text)
        if not all(isinstance(each, str) for each in found):
            raise ValueError(f"the option key is a list of column names, got {text!r}")
    else:
        found = [each.strip() for each in text.split(",")] if text.strip() else []
    names = tuple(found)
    if "" in names or len(set(names)) < len(names):
        raise ValueError(f"the option key names columns, each once, such as 'origin,dest'; got {text!r}")
    return names


def _keys(text: str | None) -> tuple[tuple[object, ...], ...] | None:
    if text is None:
        return None
    found = _named("keys", partial(json.loads, parse_float=decimal.Decimal), text)  # a decimal keeps all its digits
    if not isinstance(found, list):
        raise ValueError(f'the option keys is a JSON list such as ["N14228"] or [["EWR", "IAH"]], got {text!r}')
    return tuple(tuple(each) if isinstance(each, list) else (each,) for each in found)


def _ranges(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"the option subpartitions is a list such as '0,4-7', got {text!r}")
        if int(last or first) >= SUBPARTITION_MAX:
            raise ValueError(f"the option subpartitions has numbers below {SUBPARTITION_MAX}, got {text!r}")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _number(name: str, text: str, most: int, least: int = 1) -> int:
    value = _named(name, int, text)
    if not least <= value <= most:
        raise ValueError(f"the option {name} is a number from {least} to {most}, got {text!r}")
    return value


def _batch(writer: str | None, number: str | None) -> tuple[str, int] | None:
    if writer is None and number is None:
        return None
    if not writer or number is None or not number.isdecimal() or int(number) >= 1 << 62:
        raise ValueError(
            "the options writer and batch go together: a name, and a number from 0 that grows from one write of that "
            f"name to the next; got {writer!r} and {number!r}"
        )
    return writer, int(number)


def _compression(text: str) -> str | None:
    name = None if text.lower() in ("none", "uncompressed", "") else text.upper()
    if name not in COMPRESSIONS:
        raise ValueError(f"the option compression is none, lz4 or zstd, got {text!r}")
    return name


def _choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    value = text.lower()
    if value not in choices:
        raise ValueError(f"the option {name} is one of {', '.join(choices)}, got {text!r}")
    return value


def _named(name: str, parse, text: str):
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"the option {name}: {error}") from None
