"""A Delta table as sinks and sources see it: its schema, its files, the versions of its log; by the library deltalake.

Flink: DeltaSink and DeltaSource of the Delta connectors. PyFlink has no such thing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.lakes.table_commits import LakeTableError
from flinkbuf.streaming.sources.file_split import local_path

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

# What an append keeps by itself, or the library at the commit.
_WRITER_FEATURES = {
    "appendOnly",
    "changeDataFeed",
    "deletionVectors",
    "domainMetadata",
    "inCommitTimestamp",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
# What is in use only where a column or a property says so.
_WRITER_FEATURES_SAID = {
    "checkConstraints",
    "columnMapping",
    "generatedColumns",
    "identityColumns",
    "invariants",
    "rowTracking",
}
_READER_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
# What a field of the schema says if its values are not free.
_RULES_OF_FIELDS = ("delta.invariants", "delta.generationExpression", "delta.identity.start")

_WAITS_S = (0.05, 0.5, None)  # between tries to read a log whose files go meanwhile: by a clean-up, or for a new table


class DeltaTableError(LakeTableError):
    """A Delta table asks for what a sink or source does not do; to begin again does not help."""


def deltalake_module(needed_by: str) -> ModuleType:
    """Return deltalake, which is an extra."""
    try:
        import deltalake
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{needed_by} needs deltalake and pyarrow: pip install 'flinkbuf[delta]'") from error
    return deltalake


@dataclass(frozen=True)
class DeltaPlace:
    """Where a table is.

    Attributes
    ----------
    uri : str
        An absolute path, or a URI such as ``s3://bucket/table``.
    storage_options : mapping
        What the library is told of an object store; secrets belong into the environment of the tasks.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(path: str | os.PathLike[str]) -> DeltaPlace:
        """Return a place; a local path is absolute as of now, in the program."""
        text = os.fspath(path)
        return DeltaPlace(text if len(urlsplit(text).scheme) > 1 and not text.startswith("file:") else local_path(text))

    def open(self, version: int | datetime | None = None) -> DeltaTable | None:
        """Return the table as it is, or was in a version; None: there is none."""
        import deltalake
        from deltalake.exceptions import DeltaError, TableNotFoundError

        for wait_s in _WAITS_S:
            try:
                table = deltalake.DeltaTable(self.uri, storage_options=dict(self.storage_options) or None)
                break
            except TableNotFoundError:
                return None
            except DeltaError:  # such as files of its log that were removed after they were listed
                if wait_s is None:
                    raise
                time.sleep(wait_s)
        if version is not None:
            table.load_as_version(version)
        return table

    def file_system(self) -> FileSystem:
        """Return the directory of the table as a file system of pyarrow, over the library's own store."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        if os.path.isabs(self.uri):
            os.makedirs(self.uri, exist_ok=True)  # writers may be there before the table is
        return PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options) or None))


def arrow_schema_of(schema: Any) -> pa.Schema:
    """Return a schema of deltalake as pyarrow's."""
    import pyarrow as pa

    return pa.schema(schema.to_arrow())


def delta_schema_of(schema: pa.Schema) -> Any:
    """Return a schema of pyarrow as deltalake's; times are microseconds there.

    Raises
    ------
    TypeError
        If a column has a type that Delta has not.
    """
    import pyarrow as pa
    from deltalake import Schema

    def in_delta(each: pa.Field) -> pa.Field:
        if not pa.types.is_timestamp(each.type):
            return each
        return each.with_type(pa.timestamp("us", None if each.type.tz is None else "UTC"))

    try:
        made = Schema.from_arrow(pa.schema([in_delta(each) for each in schema]))
    except Exception as error:
        raise TypeError(f"a Delta table cannot have these columns: {error}") from None
    # The library has a type of its own for nanoseconds, in a table that nobody else reads.
    inside = next((each for each in arrow_schema_of(made) if "timestamp[ns" in str(each.type)), None)
    if inside is not None:
        raise TypeError(f"a Delta table has no times of nanoseconds, as column {inside.name!r} has: {inside.type}")
    return made


def check_writable(table: DeltaTable, uri: str) -> None:
    """Refuse a table whose rows have rules that a sink does not keep."""
    protocol, found = table.protocol(), table.metadata().configuration
    unknown = set(protocol.writer_features or ()) - _WRITER_FEATURES - _WRITER_FEATURES_SAID
    if unknown:
        raise DeltaTableError(
            f"Delta table {uri} has the features {', '.join(sorted(unknown))}, which DeltaSink has not"
        )
    rules = [name for name in found if name.startswith("delta.constraints.")]
    if found.get("delta.columnMapping.mode", "none") != "none":
        rules.append("delta.columnMapping.mode")
    if found.get("delta.enableRowTracking", "false") == "true":
        rules.append("delta.enableRowTracking")
    for each in json.loads(table.schema().to_json())["fields"]:
        rules += [f"{rule} of column {each['name']!r}" for rule in _RULES_OF_FIELDS if rule in each["metadata"]]
    if rules:
        raise DeltaTableError(
            f"Delta table {uri} has rules that DeltaSink does not keep ({', '.join(rules)}): write its rows with "
            "another engine, or into a table without them"
        )


def check_readable(features: list[str] | None, configuration: Mapping[str, str | None], uri: str) -> None:
    """Refuse a table whose files are not the rows as they are."""
    unknown = set(features or ()) - _READER_FEATURES - {"columnMapping"}
    if configuration.get("delta.columnMapping.mode", "none") not in (None, "none"):
        unknown.add("columnMapping")
    if unknown:
        raise DeltaTableError(
            f"Delta table {uri} has features that DeltaSource does not read: {', '.join(sorted(unknown))}"
        )


def partition_value(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Return a value that the log has as text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> [partition_value("7", pa.int32()).as_py(), partition_value("", pa.string()).as_py()]
    [7, None]
    """
    import pyarrow as pa
    from pyarrow import types

    if text is None or text == "":
        return pa.scalar(None, type_)
    if types.is_binary(type_) or types.is_large_binary(type_):
        return pa.scalar(text.encode(), type_)
    if types.is_timestamp(type_):
        plain = pa.array([text.replace("T", " ").removesuffix("Z")]).cast(pa.timestamp("us"))
        return plain.cast(pa.int64()).cast(pa.timestamp("us", type_.tz)).cast(type_)[0]
    return pa.array([text]).cast(type_)[0]


def partition_text(value: pa.Scalar, name: str) -> str | None:
    """Return a value as the log has it.

    Raises
    ------
    ValueError
        If it is an empty string, which the log cannot tell from null.

    Examples
    --------
    >>> import datetime, pyarrow as pa
    >>> partition_text(pa.scalar(True), "b"), partition_text(pa.scalar(datetime.datetime(2024, 1, 2)), "t")
    ('true', '2024-01-02 00:00:00.000000')
    """
    import pyarrow as pa
    from pyarrow import types

    if not value.is_valid:
        return None
    if types.is_boolean(value.type):
        return "true" if value.as_py() else "false"
    if types.is_timestamp(value.type):
        plain = value.cast(pa.int64()).cast(pa.timestamp("us")).as_py()
        return str(plain.isoformat(sep=" ", timespec="microseconds"))  # unlike strftime() with four digits of the year
    if types.is_decimal(value.type):
        return format(value.as_py(), "f")  # without an exponent, which others do not read
    text = str(value.as_py())
    if not text:
        raise ValueError(
            f"column {name!r} is an empty string, which a Delta table cannot tell from null in a column that it is "
            "partitioned by"
        )
    return text


def check_partition_columns(schema: pa.Schema, names: tuple[str, ...]) -> None:
    """Refuse columns that a table cannot be partitioned by."""
    from pyarrow import types

    for name in names:
        if name not in schema.names:
            raise ValueError(f"the table is partitioned by {name!r}, and its columns are {', '.join(schema.names)}")
        found = schema.field(name).type
        is_plain = types.is_integer(found) or types.is_boolean(found) or types.is_decimal(found)
        if not (is_plain or types.is_string(found) or types.is_date(found) or types.is_timestamp(found)):
            raise TypeError(f"a Delta table cannot be partitioned by column {name!r}, which is {found}")
    if len(names) == len(schema.names):
        raise ValueError("a Delta table needs a column that it is not partitioned by")


# --- the log


@dataclass(frozen=True)
class AddedFile:
    """A data file as the log has it."""

    path: str
    size: int
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class LogVersion:
    """What one commit did to the rows, as far as readers of appends ask."""

    number: int
    added: tuple[AddedFile, ...]
    schema_text: str | None  # None: it did not say the schema anew


def read_log_version(files: FileSystem, uri: str, number: int) -> LogVersion | None:
    """Return one version of a table's log; None: it is not there.

    Raises
    ------
    DeltaTableError
        If it took rows away or changed some, or the table has got a feature that is not read.
    """
    try:
        with files.open_input_file(f"_delta_log/{number:020d}.json") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    added, schema_text, operation = [], None, "a commit"
    removed = False
    try:
        actions = [json.loads(line) for line in data.splitlines() if line.strip()]
        for action in actions:
            if (add := action.get("add")) is not None and add["dataChange"]:
                if add.get("deletionVector"):
                    removed = True
                partition = tuple(sorted(add.get("partitionValues", {}).items()))
                added.append(AddedFile(unquote(add["path"]), add["size"], partition))
            elif (remove := action.get("remove")) is not None:
                removed |= remove["dataChange"]
            elif (metadata := action.get("metaData")) is not None:
                schema_text = metadata["schemaString"]
                check_readable(None, metadata.get("configuration", {}), uri)
            elif (protocol := action.get("protocol")) is not None:
                check_readable(protocol.get("readerFeatures"), {}, uri)
            elif (info := action.get("commitInfo")) is not None:
                operation = info.get("operation", operation)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDataError(f"version {number} of the log of Delta table {uri} cannot be read: {error!r}") from error
    if removed:
        raise DeltaTableError(
            f"version {number} of Delta table {uri} ({operation}) takes rows away or changes some, and DeltaSource "
            "reads what is appended only: begin behind it with set_starting_version("
            f"{number + 1}), or read the table as it is then"
        )
    return LogVersion(number, tuple(added), schema_text)


def files_of(table: DeltaTable, schema: pa.Schema, partition_columns: list[str]) -> list[AddedFile]:
    """Return all data files of a table in its version."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    columns = []
    for name in partition_columns:
        values = actions.column(f"partition.{name}") if f"partition.{name}" in actions.column_names else None
        type_ = schema.field(name).type
        columns.append([None] * len(paths) if values is None else [_text_of(value, type_, name) for value in values])
    partitions = zip(*columns, strict=True) if columns else ((),) * len(paths)
    return sorted(
        (
            AddedFile(unquote(path), size, tuple(sorted(zip(partition_columns, values, strict=True))))
            for path, size, values in zip(paths, sizes, partitions, strict=True)
        ),
        key=lambda each: each.path,
    )


def _text_of(value: pa.Scalar, type_: pa.DataType, name: str) -> str | None:
    return partition_text(value if value.type.equals(type_) else value.cast(type_), name)
