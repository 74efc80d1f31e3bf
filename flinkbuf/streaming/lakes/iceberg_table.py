"""An Iceberg table as sinks and sources see it: its catalog, its schema, its data files; by the library pyiceberg.

Flink: TableLoader, CatalogLoader of its Iceberg connector. PyFlink has no such thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkbuf.streaming.lakes.table_commits import LakeTableError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


class IcebergTableError(LakeTableError):
    """An Iceberg table asks for what a sink or source does not do; to begin again does not help."""


def check_pyiceberg(needed_by: str) -> None:
    """Raise ImportError unless there is pyiceberg, which is an extra."""
    try:
        import pyarrow  # noqa: F401
        import pyiceberg.catalog  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{needed_by} needs pyiceberg and pyarrow: pip install 'flinkbuf[iceberg]'") from error


@dataclass(frozen=True)
class IcebergPlace:
    """Where a table is.

    Attributes
    ----------
    catalog : str
        Its name, by which pyiceberg finds more of it in its own configuration and in the environment.
    properties : mapping
        What pyiceberg is told besides; secrets belong into the environment of the tasks.
    table : str
        With its namespace: ``"flights.delays"``.
    """

    catalog: str = "default"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    table: str = ""

    def __str__(self) -> str:
        return f"Iceberg table {self.catalog}.{self.table}"

    def load(self) -> Table:
        """Return the table as it is now.

        Raises
        ------
        FileNotFoundError
            If there is none.
        """
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        catalog = load_catalog(self.catalog, **self.properties)
        try:
            return catalog.load_table(self.table)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise FileNotFoundError(
                f"there is no {self}: make it with create_table({self.table!r}, schema=...) of the catalog, which "
                f"decides its columns and partitions ({error})"
            ) from None
        finally:
            catalog.close()  # its connections; it makes others if it is asked again


def check_writable(table: Table, place: IcebergPlace) -> None:
    """Refuse a table whose partitions the library cannot make here.

    It finds the rows of a partition by comparing with its value: NaN is equal to none, so that there are no rows, and
    -0.0 is equal to 0.0, so that the rows of both are there twice.
    """
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType, FloatType

    for each in table.spec().fields:
        found, name = table.schema().find_type(each.source_id), table.schema().find_column_name(each.source_id)
        if isinstance(each.transform, IdentityTransform) and isinstance(found, (DoubleType, FloatType)):
            raise IcebergTableError(
                f"{place} is partitioned by {name!r}, which is {found}: rows with NaN cannot be written there, and "
                "those with 0.0 and -0.0 would be written twice; partition it by another column"
            )
        try:
            each.transform.pyarrow_transform(found)
        except Exception as error:
            raise IcebergTableError(
                f"{place} is partitioned by {each.transform} of {name!r}, which cannot be written here: {error}"
            ) from None


def check_columns(table: Table, schema: pa.Schema, place: IcebergPlace) -> None:
    """Refuse a table that has a column no more, by its number: what is written there would be nowhere."""
    has = {each.field_id for each in table.schema().fields}
    for each in schema:
        if int((each.metadata or {})[b"PARQUET:field_id"]) not in has:
            raise IcebergTableError(
                f"{place} has lost its column {each.name!r} since the sink was built, though it may have another one "
                "of that name: build it again"
            )


def is_first(snapshot: Snapshot, io: FileIO) -> bool:
    """Return whether none was before a snapshot: one whose parent has expired has its files, and may name no parent."""
    manifests = () if snapshot.parent_snapshot_id is not None else snapshot.manifests(io)
    return snapshot.parent_snapshot_id is None and all(
        each.added_snapshot_id == snapshot.snapshot_id and not each.existing_files_count for each in manifests
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema of pyiceberg's without numbers of fields and with the usual strings and lists.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plain_schema(pa.schema([pa.field("a", pa.large_string(), metadata={"PARQUET:field_id": "1"})]))
    a: string
    """
    import pyarrow as pa

    return pa.schema([_plain_field(each) for each in schema])


def _plain_field(found: pa.Field) -> pa.Field:
    return found.with_type(_plain_type(found.type)).remove_metadata()


def _plain_type(found: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    from pyarrow import types

    if types.is_large_string(found):
        return pa.string()
    if types.is_large_binary(found):
        return pa.binary()
    if types.is_list(found) or types.is_large_list(found):
        return pa.list_(_plain_field(found.value_field))
    if types.is_struct(found):
        return pa.struct([_plain_field(found.field(index)) for index in range(found.num_fields)])
    if types.is_map(found):
        return pa.map_(_plain_field(found.key_field), _plain_field(found.item_field))
    return found


# --- data files as checkpoints keep them: plain values, whatever version of the library has written them

_VALUES = (
    "file_path",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "equality_ids",
    "sort_order_id",
)
_BY_COLUMN = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


@dataclass(frozen=True)
class IcebergFile:
    """A data file, or a file of deletes: what a manifest says of it."""

    values: Mapping[str, Any]
    content: int
    file_format: str
    partition: tuple[Any, ...]
    spec_id: int

    @property
    def path(self) -> str:
        """Return where it is."""
        return str(self.values["file_path"])

    @staticmethod
    def of(file: DataFile, spec_id: int) -> IcebergFile:
        """Return what is kept of a file of the library, and of the number of its partition spec."""
        values = {name: getattr(file, name) for name in _VALUES}
        by_column = {name: getattr(file, name) for name in _BY_COLUMN}
        values |= {name: None if each is None else dict(each) for name, each in by_column.items()}
        partition = tuple(file.partition[index] for index in range(len(file.partition)))
        return IcebergFile(values, int(file.content), file.file_format.value, partition, spec_id)

    def to_data_file(self) -> DataFile:
        """Return the file of the library."""
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        made = DataFile.from_args(
            content=DataFileContent(self.content),
            file_format=FileFormat(self.file_format),
            partition=Record(*self.partition),
            **self.values,
        )
        made.spec_id = self.spec_id
        return made
