"""Parquet files. PyFlink: pyflink.datastream.formats.parquet. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from flinkbuf._core.value.own_value import copied
from flinkbuf.common.serialization import RowDataBulkWriterFactory
from flinkbuf.datastream.formats.parquet_columns import (
    ParquetColumnFiles,
    ParquetColumns,
    groups_in,
    names_in,
)
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import ARROW_NAMES
from flinkbuf.streaming.file_place import source_for_libraries
from flinkbuf.streaming.lakes.parquet_writer import ROWS_PER_GROUP
from flinkbuf.streaming.sources.file_format import BulkFormat, ColumnFormat
from flinkbuf.streaming.sources.file_split import FileSplit
from flinkbuf.streaming.sources.wanted_columns import kept_description, wanted_schema
from flinkbuf.types.date_time import Instant
from flinkbuf.types.row import row_class
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation, basic_type
from flinkbuf.types.types import as_type

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

if TYPE_CHECKING:
    import pyarrow

Conversion = Callable[[Any], object]
_INSTANT = basic_type("INSTANT")


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from error
    return pyarrow


def _row_type(description: object) -> RowTypeInfo:
    type_info = as_type(description)
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"a Parquet file holds rows, got {type_info!r}")
    return type_info


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads rows of a Parquet file, its columns by name; a row group belongs to the range where it begins.

    Where ``as_columns`` follows directly, batches of columns are read, and no row is an object.

    Parameters
    ----------
    row_type : RowTypeInfo, or anything that `flinkbuf.as_type` reads
        The columns that are read.
    hadoop_config : object, optional
        Not used: no Hadoop is.
    batch_size : int, default 2048
        Rows that are read at once.
    is_utc_timestamp : bool, default False
        Not used: time stamps come as the file has them.
    is_case_sensitive : bool, default True
        Whether the case of a column's name counts.

    References
    ----------
    PyFlink ``ParquetColumnarRowInputFormat``.
    """

    def __init__(
        self,
        row_type: object,
        hadoop_config: object = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        _pyarrow()
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1 row, got {batch_size}")
        self._row_type = _row_type(row_type)
        self._description = kept_description(row_type, self._row_type)
        self._batch_size = batch_size
        self._fold = str if is_case_sensitive else str.lower

    def get_produced_type(self) -> TypeInformation:
        """Return the row type."""
        return self._row_type

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> ColumnFormat | None:
        """Return what reads whole batches, of the wanted columns alone."""
        if type(self).read_split is not ParquetColumnarRowInputFormat.read_split:
            return None  # a subclass gives other rows
        schema = wanted_schema(wanted, self._row_type, self._description)
        return ParquetColumns(schema, self._fold, max_rows, max_bytes)

    def read_split(self, split: FileSplit) -> Iterator[object]:
        """The rows of the row groups that begin in a range."""
        pyarrow = _pyarrow()
        names = self._row_type.field_names
        make_row = row_class(names)
        converts = [_from_arrow(each) for each in self._row_type.field_types]
        try:
            with pyarrow.parquet.ParquetFile(source_for_libraries(split.path)) as file:
                columns = names_in(file.schema_arrow.names, names, self._fold, split.path)
                groups = groups_in(file.metadata, split)
                for batch in file.iter_batches(self._batch_size, groups, columns) if groups else ():
                    values = [
                        _converted(batch.column(column).to_pylist(), convert)
                        for column, convert in zip(columns, converts, strict=True)
                    ]
                    yield from map(make_row, *values) if values else ()
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise CorruptDataError(f"{split.path}: {error}") from error


class ParquetBulkWriters:
    """Makes what writes rows into Parquet files. PyFlink: ParquetBulkWriters.

    A column stream's batches are written as they are, and no row is an object.
    """

    @staticmethod
    def for_row_type(
        row_type: object, hadoop_config: object = None, utc_timestamp: bool = False
    ) -> RowDataBulkWriterFactory:
        """Write rows of a type.

        Parameters
        ----------
        row_type : RowTypeInfo, or anything that `flinkbuf.as_type` reads
        hadoop_config : object, optional
            Not used: no Hadoop is.
        utc_timestamp : bool, default False
            Not used: time stamps are written as they are.
        """
        _pyarrow()
        type_info = _row_type(row_type)
        arrow_schema(type_info)  # raises now if a column has no form in Parquet
        return RowDataBulkWriterFactory(_ParquetFiles(type_info), type_info)


class _ParquetFiles:
    """Makes a writer for each file; picklable."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._row_type = row_type

    def __call__(self, file: IO[bytes]) -> _ParquetWriter:
        return _ParquetWriter(self._row_type, file)

    def of_columns(self) -> ParquetColumnFiles:
        """Return what makes writers of batches, for the same files."""
        return ParquetColumnFiles(arrow_schema(self._row_type))


class _ParquetWriter:
    """Writes the rows of one file, in row groups."""

    def __init__(self, row_type: RowTypeInfo, file: IO[bytes]) -> None:
        self._pyarrow = _pyarrow()
        self._schema = arrow_schema(row_type)
        self._nested = [_to_arrow(each) for each in row_type.field_types]
        self._writer = self._pyarrow.parquet.ParquetWriter(file, self._schema)
        self._rows: list[Sequence[object]] = []

    def add_element(self, row: Sequence[object]) -> None:
        """Keep one row; a full row group is written."""
        if len(row) != len(self._schema):
            raise ValueError(f"a row of {len(row)} fields for {len(self._schema)} columns: {row!r}")
        self._rows.append(copied(row))  # whoever gave it may go on changing it
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write_group()

    def flush(self) -> None:
        """Nothing: a row group that is begun cannot be read."""

    def finish(self) -> None:
        """Write the rest and the footer."""
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Let pyarrow end the file now; it would try to when the file is closed already."""
        self._writer.close()

    def _write_group(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        columns = []
        for index, (field, convert) in enumerate(zip(self._schema, self._nested, strict=True)):
            values = [row[index] if convert is None else convert(row[index]) for row in rows]
            columns.append(self._pyarrow.array(values, field.type))
        self._writer.write_batch(self._pyarrow.record_batch(columns, schema=self._schema))


def arrow_schema(row_type: RowTypeInfo) -> pyarrow.Schema:
    """The pyarrow schema of rows."""
    fields = zip(row_type.field_names, row_type.field_types, strict=True)
    return _pyarrow().schema([(name, _arrow_type(each)) for name, each in fields])


def _arrow_type(type_info: TypeInformation) -> pyarrow.DataType:
    pyarrow, kind, children = _pyarrow(), type_info.kind, type_info.children
    if kind in ARROW_NAMES:
        return getattr(pyarrow, ARROW_NAMES[kind])()
    if kind == "SQL_DATE":
        return pyarrow.date32()
    if kind == "BIG_DEC":
        return pyarrow.decimal128(38, 18)
    if kind in ("SQL_TIME", "LOCAL_TIME"):
        return pyarrow.time32("ms")
    if kind in ("SQL_TIMESTAMP", "LOCAL_DATE_TIME"):
        return pyarrow.timestamp("us")
    if kind == "INSTANT":
        return pyarrow.timestamp("us", "UTC")
    if kind == "PRIMITIVE_ARRAY" and children[0].kind == "BYTE":
        return pyarrow.binary()
    if kind in ("LIST", "OBJECT_ARRAY", "PRIMITIVE_ARRAY"):
        return pyarrow.list_(_arrow_type(children[0]))
    if kind == "STRING_ARRAY":
        return pyarrow.list_(pyarrow.string())
    if kind == "MAP":
        return pyarrow.map_(*map(_arrow_type, children))
    if isinstance(type_info, RowTypeInfo):
        return pyarrow.struct(list(arrow_schema(type_info)))
    raise TypeError(f"a {type_info!r} has no form in Parquet")


def _converted(values: list[object], convert: Conversion | None) -> list[object]:
    return values if convert is None else list(map(convert, values))


def _from_arrow(type_info: TypeInformation) -> Conversion | None:
    """What makes a value of what pyarrow gives; None: it is the value itself."""
    inner = [_from_arrow(each) for each in type_info.children]
    if isinstance(type_info, RowTypeInfo):
        names, make_row = type_info.field_names, row_class(type_info.field_names)
        return lambda struct: (
            None
            if struct is None
            else make_row(*(_of(convert, struct[name]) for name, convert in zip(names, inner, strict=True)))
        )
    if type_info == _INSTANT:
        return lambda moment: None if moment is None else Instant.from_datetime(moment)
    if type_info.kind == "MAP":
        of_key, of_value = inner
        return lambda pairs: None if pairs is None else {_of(of_key, key): _of(of_value, each) for key, each in pairs}
    if type_info.kind in ("LIST", "OBJECT_ARRAY") and inner[0] is not None:
        return lambda values: None if values is None else _converted(values, inner[0])
    return None


def _of(convert: Conversion | None, value: object) -> object:
    return value if convert is None else convert(value)


def _to_arrow(type_info: TypeInformation) -> Conversion | None:
    """What makes of a value what pyarrow takes; None: it takes the value itself."""
    if isinstance(type_info, RowTypeInfo):
        names, fields = type_info.field_names, [_to_arrow(each) for each in type_info.field_types]

        def struct(row: Sequence[object] | None) -> object:
            if row is None:
                return None
            values = zip(names, fields, row, strict=True)
            return {name: value if convert is None else convert(value) for name, convert, value in values}

        return struct
    if type_info.kind == "INSTANT":  # to the microsecond, as the file has it
        return lambda value: value.to_datetime() if isinstance(value, Instant) else value
    inner = [_to_arrow(each) for each in type_info.children]
    convert = inner[-1] if inner else None  # of an element, or of a map's value
    if type_info.kind in ("LIST", "OBJECT_ARRAY") and convert is not None:
        return lambda values: None if values is None else [convert(each) for each in values]
    if type_info.kind == "MAP" and convert is not None:
        return lambda pairs: None if pairs is None else {key: convert(each) for key, each in pairs.items()}
    return None
