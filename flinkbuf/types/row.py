"""Rows: tuples that know their field names and what they do to a table."""

from __future__ import annotations

import sys
import unicodedata
from collections import namedtuple
from collections.abc import Mapping, Sequence
from enum import IntEnum
from keyword import iskeyword
from typing import Any, ClassVar, NoReturn

from flinkbuf._core.value.row_codec import NamedFields, prepare_row_class


class RowKind(IntEnum):
    """What a row does to the table it belongs to: Flink's ``RowKind``, with the byte it writes as value.

    Examples
    --------
    >>> RowKind.UPDATE_AFTER.short_name, RowKind("-D") is RowKind.DELETE, RowKind(0).name
    ('+U', True, 'INSERT')
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short_name(self) -> str:
        """``+I``, ``-U``, ``+U`` or ``-D``, as Flink prints it."""
        return ("+I", "-U", "+U", "-D")[self.value]

    def __str__(self) -> str:
        return self.short_name

    @classmethod
    def _missing_(cls, value: object) -> RowKind | None:
        return next((kind for kind in cls if kind.short_name == value), None)


class Row(NamedFields):
    """A tuple whose fields may have names and which knows its kind of change. Flink's ``Row``.

    A row equals, orders and hashes as the plain tuple of its fields: neither names nor kind take part.
    Fields with names are attributes too, and ``row["name"]`` is the field of any name. The names ``row_kind``,
    ``of_kind``, ``get_row_kind``, ``set_row_kind``, ``set_field_names``, ``get_fields_by_names``, ``as_dict``,
    ``asDict``, ``replace``, ``_asdict``, ``_replace`` and those with two leading underscores stay the row's own as
    attributes: such a field is reached in brackets, by its index or through `as_dict`.

    ``name in row`` and `index` look at the values, as in a tuple (in a row of pyspark, ``in`` looks at the names).

    Parameters
    ----------
    *fields : object
        The values, by position; or, instead of them,
    **named : object
        the values by name, in this order.

    Examples
    --------
    >>> flight = Row(origin="JFK", delay=2.5)
    >>> flight.origin, flight["origin"], flight[1], flight == ("JFK", 2.5)
    ('JFK', 'JFK', 2.5, True)
    >>> flight
    Row(origin='JFK', delay=2.5)
    >>> gone = Row.of_kind(RowKind.DELETE, "JFK", 2.5)
    >>> gone, gone.row_kind.name
    (Row.of_kind('-D', 'JFK', 2.5), 'DELETE')
    """

    __slots__ = ()

    #: The kind of change; `RowKind.INSERT` unless made by `of_kind`. It belongs to the class, so that a row
    #: costs no more memory than a tuple: rows of the four kinds have four classes.
    row_kind: ClassVar[RowKind] = RowKind.INSERT
    _names: ClassVar[tuple[str, ...] | None] = None

    def __new__(cls, /, *fields: object, **named: object) -> Row:
        names = cls._names
        if not named:
            if names is not None and len(fields) != len(names):
                raise TypeError(f"Row has {len(names)} fields {list(names)}, got {len(fields)} values")
            return tuple.__new__(cls, fields)
        if fields:
            raise TypeError("give the fields of a Row either by position or by name, not both")
        if names is None:
            key = tuple(named)
            return tuple.__new__((_row_classes.get(key) or row_classes(key))[cls.row_kind], named.values())
        if set(named) != set(names):
            raise TypeError(f"Row has the fields {list(names)}, got {list(named)}")
        return tuple.__new__(cls, [named[name] for name in names])

    @classmethod
    def of_kind(cls, kind: RowKind | int | str, /, *fields: object, **named: object) -> Row:
        """Make a row of `kind` (a `RowKind`, its number or its short name), else like ``Row(…)``."""
        known = RowKind(kind)  # type: ignore[arg-type]  # `_missing_` knows the short names
        return row_class(cls._names, known)(*fields, **named)

    def __call__(self, *fields: object) -> Row:
        """A row of `fields`, named by the values of this one, as PyFlink has it: ``Row("a", "b")(1, 2)``."""
        return row_class([str(name) for name in self])(*fields)

    def get_row_kind(self) -> RowKind:
        """As `row_kind`, under the name that rows of PyFlink have it."""
        return self.row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Make this very row one of another kind, as rows of PyFlink can be.

        A state, and each way that a record goes, hold the row itself and see it: set the kind before a row is put into
        a state or given on, else make another one with `of_kind`.
        """
        self.__class__ = row_class(self._names, RowKind(row_kind))

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Give this very row other field names, as rows of PyFlink can be; before it is given on, as for the kind.

        Raises
        ------
        ValueError
            If there are not as many names as fields, or a name occurs twice.
        """
        if len(field_names) != len(self):
            raise ValueError(f"{len(field_names)} field names {list(field_names)} for a Row of {len(self)} fields")
        self.__class__ = row_class(field_names, self.row_kind)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """The values of some fields, in this order; all of them if the fields have no names.

        Raises
        ------
        ValueError
            If a name is none of this row's.

        Examples
        --------
        >>> Row(origin="JFK", delay=2.5).get_fields_by_names(["delay"])
        [2.5]
        """
        if self._names is None:
            return list(self)
        unknown = [name for name in names if name not in self._names]
        if unknown:
            raise ValueError(f"Field names {unknown} not exist in {list(self._names)}.")
        return [self[self._names.index(name)] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields by name, in order.

        Parameters
        ----------
        recursive : bool, default False
            Make dicts of the rows inside too, also of those in lists and in the values of dicts.

        Raises
        ------
        TypeError
            If this row has no names.
        """
        if self._names is None:
            raise TypeError(f"{self!r} has no field names; declare its type with Types.ROW_NAMED, or make it by name")
        fields = dict(zip(self._names, self, strict=True))
        return {name: _without_rows(value) for name, value in fields.items()} if recursive else fields

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        """As `as_dict`, under the name that rows of pyspark have it."""
        return self.as_dict(recursive)

    def _asdict(self) -> dict[str, Any]:
        """As `as_dict`, under the name that named tuples have it."""
        return self.as_dict()

    def replace(self, changes: Mapping[int | str, object] | None = None, /, **named: object) -> Row:
        """A row with other values in some fields, and the same names and kind; this one stays as it is.

        Parameters
        ----------
        changes : mapping, optional
            New values by position (0 is the first field) or by name: for rows without names, and for names that are
            no keyword arguments.
        **named : object
            New values by name.

        Raises
        ------
        ValueError
            If the row has no such field.

        Examples
        --------
        >>> Row.of_kind("-D", origin="JFK", delay=2.5).replace(delay=0.0)
        Row.of_kind('-D', origin='JFK', delay=0.0)
        >>> Row("JFK", 2.5).replace({1: 0.0})
        Row('JFK', 0.0)
        """
        fields, names = list(self), self._names or ()
        for field, value in [*(changes or {}).items(), *named.items()]:
            if field in names:
                fields[names.index(field)] = value
            elif isinstance(field, int) and 0 <= field < len(fields):
                fields[field] = value
            else:
                raise ValueError(f"this Row has no field {field!r}: {self._known()}")
        return tuple.__new__(type(self), fields)

    def _replace(self, /, **changes: object) -> Row:
        """As `replace`, under the name that named tuples have it."""
        return self.replace(None, **changes)

    def __setitem__(self, field: int | str, value: object) -> NoReturn:
        raise TypeError(self._refusal(field, value))

    def __setattr__(self, name: str, value: object) -> None:
        try:  # a class below may have attributes
            object.__setattr__(self, name, value)
        except AttributeError:
            raise AttributeError(self._refusal(name, value)) from None

    def _refusal(self, field: object, value: object) -> str:
        by_name = isinstance(field, str) and _is_keyword_argument(field)
        change = f"{field}={value!r:.40}" if by_name else f"{{{field!r}: {value!r:.40}}}"
        return (
            "a Row cannot be changed, since states and other branches of the stream hold the same one: make another, "
            f"row = row.replace({change})"
        )

    def _known(self) -> str:
        names = self._names
        return f"its fields are {list(names)}" if names is not None else "its fields have no names"

    def __getattr__(self, name: str) -> Any:
        # Only names that no class in the chain defines come here.
        raise AttributeError(f"this Row has no field {name!r}: {self._known()}")

    def __repr__(self) -> str:
        arguments = [] if self.row_kind is RowKind.INSERT else [repr(self.row_kind.short_name)]
        if self._names is None:
            arguments += [repr(value) for value in self]
        elif all(map(_is_keyword_argument, self._names)):
            arguments += [f"{name}={value!r}" for name, value in zip(self._names, self, strict=True)]
        else:
            arguments.append(f"**{self.as_dict()!r}")
        return f"Row{'' if self.row_kind is RowKind.INSERT else '.of_kind'}({', '.join(arguments)})"

    def __str__(self) -> str:
        """As PyFlink prints rows: ``Row(a=1)``, ``<Row(1, 2)>`` without names, and never the kind."""
        if self._names is None:
            return f"<Row({', '.join(map(_text, self))})>"
        return f"Row({', '.join(f'{name}={_text(value)}' for name, value in zip(self._names, self, strict=True))})"

    def __reduce__(self) -> tuple[object, ...]:
        # By names and kind, never by class: the other process makes its own class for them, once.
        return _make_row, (self._names, int(self.row_kind), tuple(self))


def _text(value: object) -> str:
    return str(value) if isinstance(value, Row) else repr(value)


def _without_rows(value: object) -> object:
    if isinstance(value, Row):
        return value.asDict(recursive=True)
    if isinstance(value, list):
        return [_without_rows(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_rows(item) for key, item in value.items()}
    return value


def _is_keyword_argument(name: str) -> bool:
    # Python reads identifiers in normal form NFKC: ª would come back as a.
    plain = name.isidentifier() and not iskeyword(name) and name != "__debug__"
    return plain and (name.isascii() or unicodedata.normalize("NFKC", name) == name)


_METHODS = {
    "of_kind",
    "get_row_kind",
    "set_row_kind",
    "set_field_names",
    "get_fields_by_names",
    "as_dict",
    "asDict",
    "replace",
}
_RESERVED_NAMES = frozenset(
    {"row_kind", "_asdict", "_replace", "_refusal", "_known", "_names", "_fields", "_attribute_names", *_METHODS}
)
_row_classes: dict[tuple[str, ...] | None, tuple[type[Row], ...]] = {}


def row_classes(names: Sequence[str] | None) -> tuple[type[Row], ...]:
    """The classes of rows with these field names, by ordinal of `RowKind`; made once and kept.

    Parameters
    ----------
    names : sequence of str, or None
        Field names in order; None for rows whose fields have none.

    Raises
    ------
    ValueError
        If a name occurs twice.

    Examples
    --------
    >>> insert, _, _, delete = row_classes(("a", "b"))
    >>> insert is type(Row(a=1, b=2)), delete.row_kind.name
    (True, 'DELETE')
    """
    key = None if names is None else tuple(names)
    found = _row_classes.get(key)
    if found is not None:
        return found
    attributes: dict[str, object] = {"__slots__": (), "__module__": __name__, "__qualname__": "Row", "_names": key}
    if key is not None:
        if len(set(key)) != len(key):
            raise ValueError(f"field names must differ, got {list(key)}")
        # `_fields` is how pandas and Spark know a named tuple, so both find the column names by themselves.
        attributes["_fields"] = key
        positions = [f"f{i}" for i in range(len(key))]
        template = namedtuple("template", positions)  # type: ignore[misc]
        are_attributes = [name not in _RESERVED_NAMES and not name.startswith("__") for name in key]
        for i, name in enumerate(key):
            if are_attributes[i]:
                attributes[name] = template.__dict__[f"f{i}"]
        # The codec's C finds a field by its name here, before Python looks for the descriptor.
        attributes["_attribute_names"] = tuple(
            sys.intern(str(name)) if is_one else None for name, is_one in zip(key, are_attributes, strict=True)
        )
    first = Row if key is None else type("Row", (Row,), attributes)
    later = (type("Row", (first,), {**attributes, "row_kind": kind}) for kind in list(RowKind)[1:])
    made: tuple[type[Row], ...] = (first, *later)
    for each in made:
        prepare_row_class(each)
    return _row_classes.setdefault(key, made)  # another thread may have been first: then its classes hold


def row_class(names: Sequence[str] | None, kind: RowKind = RowKind.INSERT) -> type[Row]:
    """The class of rows with these field names and this kind; see `row_classes`."""
    return row_classes(names)[kind]


def _make_row(names: tuple[str, ...] | None, kind: int, fields: tuple[object, ...]) -> Row:
    return tuple.__new__(row_classes(names)[kind], fields)


row_classes(None)  # so that rows without names are as ready as those with
