"""Changes of a table that PostgreSQL publishes as rows of a declared type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.postgres.pgoutput import Change, Relation, Unchanged, Values
from flinkbuf.streaming.postgres.postgres_client import PostgresSetupError
from flinkbuf.streaming.postgres.postgres_values import TYPE_NAMES, Converter, converter
from flinkbuf.types.row import Row, RowKind, row_class
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation


@dataclass(frozen=True)
class RowOptions:
    """What rows are made of changes.

    Attributes
    ----------
    row_type : RowTypeInfo
        With names.
    table_field : str or None
        The field that has the name of the table.
    unchanged : tuple
        The one value that stands for those that were not sent; empty: there is none.
    """

    row_type: RowTypeInfo
    table_field: str | None = None
    unchanged: tuple[object, ...] = ()


class PublishedTable:
    """A table as it is at some time, whose columns fit the declared type.

    Raises
    ------
    PostgresSetupError
        A column is missing, or is of another type.
    """

    def __init__(self, relation: Relation, options: RowOptions, type_names: Mapping[int, str]) -> None:
        self._relation = relation
        self._options = options
        names = options.row_type.names or ()
        self._classes = {kind: row_class(names, kind) for kind in RowKind}
        # Of each field: the column that it comes from, and what makes its values; None: the table's name.
        self._fields: list[tuple[int, Converter] | None] = []
        places = {column.name: place for place, column in enumerate(relation.columns)}
        for name, declared in zip(names, options.row_type.field_types, strict=True):
            if name == options.table_field:
                self._fields.append(None)
                continue
            if name not in places:
                raise PostgresSetupError(
                    f"table {relation} of PostgreSQL has no column {name!r} in its publication, which is declared as "
                    f"{declared}; it has {', '.join(places)}"
                )
            type_oid = relation.columns[places[name]].type_oid
            convert = converter(declared, type_oid)
            if convert is None:
                called = TYPE_NAMES.get(type_oid) or type_names.get(type_oid) or f"number {type_oid}"
                raise PostgresSetupError(
                    f"column {name!r} of table {relation} of PostgreSQL has the type {called}, which cannot be read as "
                    f"the declared {declared}; STRING takes any type, as PostgreSQL writes it"
                )
            self._fields.append((places[name], convert))

    def __str__(self) -> str:
        return str(self._relation)

    def rows(self, change: Change) -> Iterator[Row]:
        """Yield the rows of a change: what was there before, if it was sent, and what is there now."""
        old, new = change.old, change.new
        if old is not None:
            yield self._row(RowKind.UPDATE_BEFORE if change.is_update else RowKind.DELETE, old, None)
        if new is not None:
            kind = RowKind.UPDATE_AFTER if change.is_update else RowKind.INSERT
            yield self._row(kind, new, old if change.is_old_whole else None)

    def _row(self, kind: RowKind, values: Values, old: Values | None) -> Row:
        count = len(self._relation.columns)
        if len(values) != count or (old is not None and len(old) != count):
            raise CorruptDataError(
                f"a row of table {self._relation} of PostgreSQL has not the {count} values it should"
            )
        return self._classes[kind](*[self._field(source, values, old) for source in self._fields])

    def _field(self, source: tuple[int, Converter] | None, values: Values, old: Values | None) -> object:
        if source is None:
            return str(self._relation)
        place, convert = source
        value = values[place]
        if value is Unchanged.VALUE and old is not None:
            value = old[place]
        if value is None:
            return None
        if isinstance(value, Unchanged):
            return self._unchanged(place)
        try:
            return convert(value.decode())
        except (ValueError, ArithmeticError) as error:
            shown = value[:100].decode(errors="replace")
            declared = self._declared(place)
            raise PostgresSetupError(
                f"{self._column(place)} has the value {shown!r}, which cannot be read as the declared {declared}: "
                f"{error}. STRING takes any value, as PostgreSQL writes it"
            ) from error

    def _unchanged(self, place: int) -> object:
        if self._options.unchanged:
            return self._options.unchanged[0]
        raise PostgresSetupError(
            f"an update left a large value of {self._column(place)} as it was, and the server does not send it "
            f"again. With ALTER TABLE {self._relation} REPLICA IDENTITY FULL it does from then on; for updates before, "
            "set_value_of_unchanged(...) says what to give, or leave the column out of the type"
        )

    def _column(self, place: int) -> str:
        return f"column {self._relation.columns[place].name!r} of table {self._relation} of PostgreSQL"

    def _declared(self, place: int) -> TypeInformation:
        index = next(index for index, source in enumerate(self._fields) if source is not None and source[0] == place)
        return self._options.row_type.field_types[index]
