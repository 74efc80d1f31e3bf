"""Comma-separated values, in files and messages. PyFlink: pyflink.datastream.formats.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Protocol

from flinkbuf.common.serialization import DeserializationSchema, RowDataBulkWriterFactory, SerializationSchema
from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.datastream.formats.csv_columns import PLACE, CsvColumns, CsvMessages, CsvText, RowReader
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.streaming.sources.file_format import ColumnFormat, StreamFormat
from flinkbuf.streaming.sources.file_lines import first_line_at, line_number, open_file, read_lines
from flinkbuf.streaming.sources.file_split import COMPRESSED, FileSplit
from flinkbuf.streaming.sources.wanted_columns import MessageColumns, MessageRows, wanted_schema
from flinkbuf.types.row import row_class
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation
from flinkbuf.types.types import Types, as_type

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

_INTEGERS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
_PLAIN = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_DEC", "STRING")
_ARRAYS = ("LIST", "OBJECT_ARRAY", "PRIMITIVE_ARRAY", "STRING_ARRAY")
DEFAULT_ARRAY_SEPARATOR = ";"
_MAX_FIELD = 2**31 - 1  # characters; the module's own limit of 128 KiB is less than a document in a column has


@dataclass(frozen=True)
class CsvColumn:
    """One column of a `CsvSchema`."""

    name: str
    type: TypeInformation
    array_separator: str | None = None  # None: that of the schema


@dataclass(frozen=True)
class CsvSchema:
    """Which columns a file has, and how they are written. Flink: Jackson's CsvSchema.

    Examples
    --------
    >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").build()
    >>> len(schema), schema.row_type
    (2, Types.ROW_NAMED(['id', 'name'], [Types.LONG(), Types.STRING()]))
    """

    columns: tuple[CsvColumn, ...] = ()
    column_separator: str = ","
    line_separator: str = "\n"
    quote_char: str | None = '"'
    escape_char: str | None = None
    array_separator: str = DEFAULT_ARRAY_SEPARATOR
    null_value: str | None = None  # None: an empty number is None, an empty text is empty
    allows_comments: bool = False
    skips_first_data_row: bool = False
    uses_header: bool = False
    has_strict_headers: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begin without any column."""
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> RowTypeInfo:
        """The type of its rows."""
        return Types.ROW_NAMED([each.name for each in self.columns], [each.type for each in self.columns])

    def size(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


class CsvSchemaBuilder(OptionsBuilder[CsvSchema]):
    """Makes a `CsvSchema`; each method returns the builder."""

    def __init__(self) -> None:
        self._options = CsvSchema()

    def build(self) -> CsvSchema:
        """Make it."""
        return self._options

    def add_array_column(
        self, name: str, separator: str = DEFAULT_ARRAY_SEPARATOR, element_type: object = None
    ) -> CsvSchemaBuilder:
        """Add a column of several values in one field; they are texts unless `element_type` says otherwise."""
        element = Types.STRING() if element_type is None else as_type(element_type)
        return self._add(CsvColumn(name, Types.OBJECT_ARRAY(element), separator))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of ``true`` and ``false``."""
        return self._add(CsvColumn(name, Types.BOOLEAN()))

    def add_number_column(self, name: str, number_type: object = None) -> CsvSchemaBuilder:
        """Add a column of numbers, LONG unless `number_type` says otherwise."""
        return self._add(CsvColumn(name, Types.LONG() if number_type is None else as_type(number_type)))

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of texts."""
        return self._add(CsvColumn(name, Types.STRING()))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        return self._with(columns=self._options.columns + schema.columns)

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        return self._with(columns=())

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Leave out lines that begin with ``#``."""
        return self._with(allows_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Refused: a row has the columns of its schema."""
        raise NotImplementedError("rows have the columns of their schema; there is no place for others")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """An array is one value."""
        return self._with(array_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """The array of one column is one value."""
        columns = list(self._options.columns)
        columns[index] = replace(columns[index], array_separator="")
        return self._with(columns=tuple(columns))

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set what stands between the values of an array."""
        return self._with(array_separator=separator)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set what stands between columns, ``,`` at first."""
        return self._with(column_separator=_single("Column separator", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Nothing is escaped; the default."""
        return self._with(escape_char=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set what takes the meaning of the character after it."""
        return self._with(escape_char=_single("Escape char", char))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set what ends a line that is written; all that end lines are read."""
        return self._with(line_separator=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that means None."""
        return self._with(null_value=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Nothing is quoted."""
        return self._with(quote_char=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set what quotes a field, ``"`` at first."""
        return self._with(quote_char=_single("Quote char", char))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Leave out the first row of a file."""
        return self._with(skips_first_data_row=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Refuse a header whose names or order differ from the schema's."""
        return self._with(has_strict_headers=strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """The first row names the columns, in whatever order."""
        return self._with(uses_header=use)

    def size(self) -> int:
        """How many columns there are so far."""
        return len(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def _add(self, column: CsvColumn) -> CsvSchemaBuilder:
        return self._with(columns=(*self._options.columns, column))


def _single(what: str, char: str) -> str:
    if len(char) != 1:
        raise ValueError(f"{what} must be a single char, got {char}")
    return char


class CsvReaderFormat(StreamFormat):
    """Reads files of rows. A file is read by one reader, since a quoted field may hold line ends.

    Where ``as_columns`` follows directly, pyarrow reads batches of columns, and no row is an object.

    References
    ----------
    PyFlink ``CsvReaderFormat``.
    """

    def __init__(self, schema: CsvSchema, is_splittable: bool = False) -> None:
        if is_splittable and (schema.uses_header or schema.skips_first_data_row):
            raise ValueError("a file with a header is read from its beginning and cannot be split")
        self._schema = schema
        self.is_splittable = is_splittable

    @staticmethod
    def for_schema(schema: CsvSchema, is_splittable: bool = False) -> CsvReaderFormat:
        """Read rows of a schema.

        Parameters
        ----------
        schema : CsvSchema
        is_splittable : bool, default False
            Whether each line is a row, so that several readers may share a file. Flink has no such option.
        """
        return CsvReaderFormat(schema, is_splittable)

    def get_produced_type(self) -> TypeInformation:
        """Return the schema's row type."""
        return self._schema.row_type

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> ColumnFormat | None:
        """Return what reads whole batches, of the wanted columns alone.

        None where pyarrow cannot read what the schema says: arrays, comments, an escape character.
        """
        schema = self._schema
        if type(self).read_split is not CsvReaderFormat.read_split or not _is_read_by_arrow(schema):
            return None
        row_type = schema.row_type
        text = CsvText(schema.column_separator, schema.quote_char, schema.null_value, self.is_splittable)
        read_head = self._read_head if schema.uses_header or schema.skips_first_data_row else None
        rows = RowReader(read_head, self._read_rows)
        schema_wanted = wanted_schema(wanted, row_type, row_type)
        return CsvColumns(schema_wanted, row_type, arrow_schema(row_type), text, rows, max_rows, max_bytes)

    def _read_head(self, lines: Iterator[str]) -> tuple[list[int], int] | None:
        """Read the lines before the first row; return where each column stands, and how many there are."""
        parse = _RowParser(self._schema)
        width = self._pass_head(_reader(self._schema, lines), parse)
        return None if parse.order is None else (parse.order, width)

    def _read_rows(self, lines: Iterable[str], path: str, start: int, order: list[int] | None) -> Iterator[object]:
        return self._parsed(_reader(self._schema, lines), _RowParser(self._schema, order), path, start)

    def _pass_head(self, reader: CsvReader, parse: _RowParser) -> int:
        """Read the lines before the first row; return how many columns a header names."""
        names: list[str] | None = next(reader, None) if self._schema.uses_header else None
        parse.use_header(names)
        if self._schema.skips_first_data_row:
            next(reader, None)
        return 0 if names is None else len(names)

    def read_split(self, split: FileSplit) -> Iterator[object]:
        """The rows of a file, or of a range of one."""
        is_ranged = self.is_splittable and not split.path.endswith(COMPRESSED)
        with open_file(split.path) as file:
            if not is_ranged:
                with io.TextIOWrapper(file, "utf-8-sig", "replace", newline="") as lines:  # Excel writes such a mark
                    yield from self._rows(lines, split.path, 0)
                return
            size = file.seek(0, 2)
            start, end = first_line_at(file, split.start, size), first_line_at(file, split.end, size)
            file.seek(0)
            found = read_lines(file, start, end, "utf-8")
            yield from self._rows(found if start else _without_mark(found), split.path, start)

    def _rows(self, lines: Iterable[str], path: str, start: int) -> Iterator[object]:
        reader, parse = _reader(self._schema, lines), _RowParser(self._schema)
        try:
            self._pass_head(reader, parse)
        except (ValueError, csv.Error) as error:
            raise _located(error, path, start, reader) from error
        yield from self._parsed(reader, parse, path, start)

    def _parsed(self, reader: CsvReader, parse: _RowParser, path: str, start: int) -> Iterator[object]:
        read_count = reader.line_num
        try:
            for fields in reader:
                if self.is_splittable and reader.line_num > read_count + 1:
                    raise ValueError("a quoted field holds a line end: read such files with is_splittable=False")
                read_count = reader.line_num
                if fields:
                    yield parse(fields)
        except (ValueError, csv.Error) as error:
            raise _located(error, path, start, reader) from error


def _located(error: Exception, path: str, start: int, reader: CsvReader) -> CorruptDataError:
    number = line_number(path, start, max(reader.line_num - 1, 0))
    return CorruptDataError(f"{path}, line {number}: {error}")


def _is_read_by_arrow(schema: CsvSchema) -> bool:
    signs = schema.column_separator + (schema.quote_char or "")
    if schema.allows_comments or schema.escape_char is not None or not signs.isascii():
        return False
    return all(column.type.kind in _PLAIN for column in schema.columns) and find_spec("pyarrow") is not None


def _without_mark(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a file without the mark of its encoding that may stand before the first."""
    for first in lines:
        yield first.removeprefix("\ufeff")
        break
    yield from lines


class CsvReader(Protocol):
    """Rows of texts, as `csv.reader` gives them."""

    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> Iterator[list[str]]: ...
    def __next__(self) -> list[str]: ...


def _reader(schema: CsvSchema, lines: Iterable[str]) -> CsvReader:
    return (_CommentedRows if schema.allows_comments else _rows_of)(schema, lines)


def _rows_of(schema: CsvSchema, lines: Iterable[str]) -> CsvReader:
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))
    return csv.reader(lines, strict=True, **_dialect(schema))


class _CommentedRows:
    """Rows between lines that begin with ``#``; one within a quoted field is part of it."""

    def __init__(self, schema: CsvSchema, lines: Iterable[str]) -> None:
        self._is_within_row = False
        self._reader = _rows_of(schema, self._without_comments(lines))

    def _without_comments(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if self._is_within_row or not line.startswith("#"):
                self._is_within_row = True
                yield line

    @property
    def line_num(self) -> int:
        """Return how many lines were read, without comments."""
        return self._reader.line_num

    def __iter__(self) -> _CommentedRows:
        return self

    def __next__(self) -> list[str]:
        self._is_within_row = False
        return next(self._reader)


def _dialect(schema: CsvSchema) -> dict[str, Any]:
    quoting = csv.QUOTE_NONE if schema.quote_char is None else csv.QUOTE_MINIMAL
    return {
        "delimiter": schema.column_separator,
        "quotechar": schema.quote_char,
        "escapechar": schema.escape_char,
        "quoting": quoting,
    }


class _RowParser:
    """Makes a row from the texts of its fields."""

    def __init__(self, schema: CsvSchema, order: list[int] | None = None) -> None:
        self._schema = schema
        self._row = row_class([each.name for each in schema.columns])
        self._parsers = [(each.name, _parser_of(each, schema)) for each in schema.columns]
        self.order = order  # where each column stands in the file; None: as in the schema

    def use_header(self, names: list[str] | None) -> None:
        """Take the columns from where a header says that they are."""
        if names is None:
            return
        expected = [each.name for each in self._schema.columns]
        if self._schema.has_strict_headers and names != expected:
            raise ValueError(f"the header is {names}, but the columns are {expected}")
        missing = [name for name in expected if name not in names]
        if missing:
            raise ValueError(f"the header {names} lacks {', '.join(missing)}")
        self.order = [names.index(name) for name in expected]

    def __call__(self, fields: Sequence[str]) -> object:
        if self.order is not None:
            if len(fields) <= max(self.order):
                raise ValueError(f"{len(fields)} fields, but the header has more columns: {fields}")
            fields = [fields[index] for index in self.order]
        if len(fields) != len(self._parsers):
            raise ValueError(f"{len(fields)} fields instead of {len(self._parsers)}: {fields}")
        return self._row(*[self._parsed(*each) for each in zip(self._parsers, fields, strict=True)])

    @staticmethod
    def _parsed(parser: tuple[str, Callable[[str], object]], text: str) -> object:
        name, parse = parser
        try:
            return parse(text)
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"column {name!r}: {error}") from None


def _parser_of(column: CsvColumn, schema: CsvSchema) -> Callable[[str], object]:
    kind, null_value = column.type.kind, schema.null_value
    parse = _array_parser(column, schema) if kind in _ARRAYS else _basic_parser(column.type)
    is_text = kind == "STRING"

    def parse_or_none(text: str) -> object:
        if text == null_value or (not text and not is_text):
            return None
        return parse(text)

    return parse_or_none


def _array_parser(column: CsvColumn, schema: CsvSchema) -> Callable[[str], object]:
    separator = schema.array_separator if column.array_separator is None else column.array_separator
    element = Types.STRING() if not column.type.children else column.type.children[0]
    parse = _basic_parser(element)
    if not separator:
        return lambda text: [parse(text)]
    return lambda text: [parse(part) for part in text.split(separator)]


def _basic_parser(type_info: TypeInformation) -> Callable[[str], object]:
    kind = type_info.kind
    if kind == "STRING":
        return str
    if kind == "BOOLEAN":
        return _boolean
    if kind in _INTEGERS:
        return lambda text: int(_digits(text))
    if kind in ("FLOAT", "DOUBLE"):
        return lambda text: float(_digits(text))
    if kind == "BIG_DEC":
        return _decimal
    raise TypeError(f"a CSV column holds texts, numbers, booleans, or arrays of these, not {type_info!r}")


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return lowered == "true"


def _digits(text: str) -> str:
    """Return the text of a number; ``1_000`` is one in Python's source, and not in a file."""
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    return text


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(_digits(text).strip())
    except ArithmeticError:
        raise ValueError(f"{text!r} is no decimal number") from None


class CsvBulkWriters:
    """Makes what writes rows into CSV files. PyFlink: CsvBulkWriters."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> RowDataBulkWriterFactory:
        """Write rows of a schema, with a header if it uses one."""
        return RowDataBulkWriterFactory(_CsvFiles(schema), schema.row_type)


@dataclass(frozen=True)
class _CsvFiles:
    schema: CsvSchema

    def __call__(self, file: IO[bytes]) -> _CsvWriter:
        return _CsvWriter(self.schema, file)


class _CsvWriter:
    """Writes the rows of one file."""

    def __init__(self, schema: CsvSchema, file: IO[bytes]) -> None:
        self._file = file
        self._texts = _RowTexts(schema)
        if schema.uses_header:
            self._file.write(self._texts.line([each.name for each in schema.columns]))

    def add_element(self, row: Sequence[object]) -> None:
        """Append one row."""
        self._file.write(self._texts(row))

    def flush(self) -> None:
        """Everything is in the file."""

    def finish(self) -> None:
        """There is nothing at the end."""


class _RowTexts:
    """Makes the line of a row."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self._buffer = io.StringIO()
        # The writer quotes what holds a character of its line end; readers end lines at CR and LF, whatever it is.
        self._terminator = "\r\n" + schema.line_separator
        self._writer = csv.writer(self._buffer, lineterminator=self._terminator, **_dialect(schema))

    def __call__(self, row: Sequence[object]) -> bytes:
        columns = self._schema.columns
        if len(row) != len(columns):
            raise ValueError(f"a row of {len(row)} fields for {len(columns)} columns: {row!r}")
        return self.line([self._text_of(*each) for each in zip(row, columns, strict=True)])

    def line(self, texts: list[str]) -> bytes:
        """The line of these texts."""
        self._writer.writerow(texts)
        line = self._buffer.getvalue().removesuffix(self._terminator) + self._schema.line_separator
        self._buffer.seek(0)
        self._buffer.truncate()
        return line.encode()

    def _text_of(self, value: Any, column: CsvColumn) -> str:
        if value is None:
            return self._schema.null_value or ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if column.type.kind in _ARRAYS:
            separator = self._schema.array_separator if column.array_separator is None else column.array_separator
            return separator.join("" if each is None else str(each) for each in value)
        return str(value)


class _RowSchemaBuilder(OptionsBuilder[CsvSchema]):
    """What the builders of both row schemas have in common."""

    def __init__(self, type_info: TypeInformation) -> None:
        if type_info is None:
            raise TypeError("Type information must not be None")
        if not isinstance(type_info, RowTypeInfo):
            raise TypeError(f"CSV is made of rows, got {type_info!r}")
        columns = zip(type_info.field_names, type_info.field_types, strict=True)
        self._options = CsvSchema(tuple(CsvColumn(name, each) for name, each in columns))

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set what stands between the values of an array."""
        return self._with(array_separator=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Set what quotes a field."""
        return self._with(quote_char=_single("Quote character", c))

    def set_escape_character(self, c: str) -> Self:
        """Set what takes the meaning of the character after it."""
        return self._with(escape_char=_single("Escape character", c))


class CsvRowDeserializationSchema(DeserializationSchema):
    """Makes a row from the line of a message. PyFlink: CsvRowDeserializationSchema.

    Where ``as_columns`` follows a `KafkaSource` directly, pyarrow reads many messages at once, and no row is an object,
    unless the schema has arrays, comments, an escape character or signs outside of ASCII.
    """

    def __init__(self, schema: CsvSchema, ignores_errors: bool = False) -> None:
        self._schema = schema
        self._ignores_errors = ignores_errors

    def deserialize(self, message: bytes) -> Any:
        """Return the row; None if it cannot be read and errors are ignored."""
        try:
            fields = next(_reader(self._schema, io.StringIO(message.decode(), newline="")), None)
            return None if fields is None else _RowParser(self._schema)(fields)
        except (ValueError, csv.Error) as error:
            if self._ignores_errors:
                return None
            raise CorruptDataError(f"{message!r} is no row of this schema: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        """Return the row type."""
        return self._schema.row_type

    def of_batches(self, wanted: object) -> MessageColumns | None:
        """Return what reads many messages at once, of the wanted columns alone; None for what pyarrow cannot read."""
        if type(self).deserialize is not CsvRowDeserializationSchema.deserialize:
            return None  # a subclass may give other rows
        columns = CsvReaderFormat(self._schema, is_splittable=True).of_batches(wanted, 1, 1)
        if not isinstance(columns, CsvColumns):
            return None
        return CsvMessages(columns, MessageRows(PLACE, columns.row_type, columns.found, self.deserialize))

    class Builder(_RowSchemaBuilder):
        """Makes one; each method returns the builder."""

        _ignores_errors = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set what stands between fields."""
            return self._with(column_separator=_single("Field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Leave out messages that begin with ``#``."""
            return self._with(allows_comments=allow_comments)

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that means None."""
            return self._with(null_value=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Leave out messages that cannot be read."""
            self._ignores_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Make it."""
            return CsvRowDeserializationSchema(self._options, self._ignores_errors)


class CsvRowSerializationSchema(SerializationSchema):
    """Makes the line of a message from a row. PyFlink: CsvRowSerializationSchema."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    def serialize(self, element: Sequence[object]) -> bytes:
        """Return the line, with its end."""
        return _RowTexts(self._schema)(element)

    class Builder(_RowSchemaBuilder):
        """Makes one; each method returns the builder."""

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set what stands between fields."""
            return self._with(column_separator=_single("Field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what ends the line; it may be nothing."""
            return self._with(line_separator=delimiter)

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Quote nothing."""
            return self._with(quote_char=None)

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that means None."""
            return self._with(null_value=s)

        def build(self) -> CsvRowSerializationSchema:
            """Make it."""
            return CsvRowSerializationSchema(self._options)
