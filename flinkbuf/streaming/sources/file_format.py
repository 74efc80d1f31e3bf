"""How the records of a file are read: line by line, as a stream, or in batches.

Flink: StreamFormat, TextLineInputFormat, BulkFormat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.sources.file_lines import (
    first_line_at,
    is_splittable_charset,
    line_number,
    open_file,
    read_lines,
)
from flinkbuf.streaming.sources.file_split import COMPRESSED, FileSplit
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnFormat:
    """Reads the rows of a format as batches of columns; a subclass says how in `read_batches`.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of all batches, whatever a file says of its columns.
    """

    schema: pa.Schema

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of a file that stand behind those that it has `skipped`."""
        raise NotImplementedError(f"{type(self).__name__}.read_batches")


class StreamFormat:
    """Reads records one by one from a file. A subclass says how: `read_split`, or `read_file` for whole files.

    References
    ----------
    PyFlink ``StreamFormat``.
    """

    is_splittable = False
    """Whether several readers may share one file."""

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None: not declared."""
        return None

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> ColumnFormat | None:
        """Return what reads the same rows as batches of columns; None: they are read one by one only.

        Parameters
        ----------
        wanted : type, optional
            Of the rows, as ``DataStream.as_columns`` takes it; it may have fewer columns. None: as the format has them.
        max_rows, max_bytes : int
            No batch has more rows, and none many more bytes.
        """
        return None

    def read_file(self, file: IO[bytes], path: str) -> Iterator[object]:
        """Yield the records of a file that was opened, and decompressed if its name says so."""
        raise NotImplementedError(f"{type(self).__name__}.read_file")

    def read_split(self, split: FileSplit) -> Iterator[object]:
        """Yield the records of a range of a file."""
        with open_file(split.path) as file:
            yield from self.read_file(file, split.path)

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Each line is a record, without its end.

        Parameters
        ----------
        charset_name : str, default "UTF-8"
            What is not valid in it becomes U+FFFD, as in Flink.
        """
        return LineFormat(charset_name, type_info=Types.STRING())


class LineFormat(StreamFormat):
    """Each line, or what a function makes of it, is a record.

    Parameters
    ----------
    charset : str
    parse : callable, optional
        Takes a line. What it raises says path and line number to the user.
    type_info : TypeInformation, optional
        What `parse` returns.
    skips_blank : bool
        Whether lines of nothing but blanks are left out.
    """

    def __init__(
        self,
        charset: str = "UTF-8",
        parse: Callable[[str], object] | None = None,
        type_info: TypeInformation | None = None,
        skips_blank: bool = False,
    ) -> None:
        self.is_splittable = is_splittable_charset(charset)
        self._charset = charset
        self._parse = parse
        self._type_info = type_info
        self._skips_blank = skips_blank

    def get_produced_type(self) -> TypeInformation | None:
        """Return the declared type."""
        return self._type_info

    def read_split(self, split: FileSplit) -> Iterator[object]:
        """Yield the records of the lines that begin in the range."""
        is_whole = not self.is_splittable or split.path.endswith(COMPRESSED)
        with open_file(split.path) as file:
            size = 0 if is_whole else file.seek(0, 2)
            start = 0 if is_whole else first_line_at(file, split.start, size)
            end = None if is_whole else first_line_at(file, split.end, size)
            file.seek(0)
            lines = read_lines(file, start, end, self._charset)
            yield from lines if self._parse is None else self._parsed(lines, split.path, start)

    def _parsed(self, lines: Iterator[str], path: str, start: int) -> Iterator[object]:
        parse, index = self._parse, -1
        assert parse is not None
        try:
            for index, line in enumerate(lines):  # noqa: B007
                if self._skips_blank and not line.strip():
                    continue
                yield parse(line)
        except ValueError as error:
            number = line_number(path, start, index)
            raise CorruptDataError(f"{path}, line {number}: {error}") from error


class BulkFormat:
    """Reads records in batches; a subclass says how in `read_split`.

    References
    ----------
    PyFlink ``BulkFormat``.
    """

    is_splittable = True

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None: not declared."""
        return None

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> ColumnFormat | None:
        """Return what reads the same rows as batches of columns; None: they are read one by one only.

        Parameters
        ----------
        wanted : type, optional
            Of the rows, as ``DataStream.as_columns`` takes it; it may have fewer columns. None: as the format has them.
        max_rows, max_bytes : int
            No batch has more rows, and none many more bytes.
        """
        return None

    def read_split(self, split: FileSplit) -> Iterator[object]:
        """Yield the records that begin in a range of a file."""
        raise NotImplementedError(f"{type(self).__name__}.read_split")
