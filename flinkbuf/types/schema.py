"""Descriptions of data that others made (Spark DDL text, pyspark types, pyarrow schemas), read as types of ours.

What Spark's types become. Every field of a Spark row may be null, and so may elements of arrays and values of
maps; each place below that may hold None has a form for it in its bytes, so no null in a DataFrame is ever refused.

=================================  ==================================  ==========================================
Spark                              flinkbuf                            Python value
=================================  ==================================  ==========================================
boolean                            BOOLEAN                             bool
tinyint, byte                      BYTE                                int
smallint, short                    SHORT                               int
int, integer                       INT                                 int
bigint, long                       LONG                                int
float, real                        FLOAT                               float
double                             DOUBLE                              float
string, char(n), varchar(n)        STRING                              str
binary                             PRIMITIVE_ARRAY(BYTE)               bytes
decimal(p, s), numeric, dec        BIG_DEC                             decimal.Decimal
date                               LOCAL_DATE                          datetime.date
time(p)                            LOCAL_TIME                          datetime.time
timestamp, timestamp_ltz(p)        TIMESTAMP_LTZ                       aware datetime.datetime, in UTC
timestamp_ntz(p)                   LOCAL_DATE_TIME                     naive datetime.datetime
void                               VOID                                None
array<t>                           OBJECT_ARRAY(t)                     list, elements may be None
map<k, v>                          MAP(k, v)                           dict, values may be None
struct<a: t, …>, also at the top   ROW_NAMED(["a", …], [t, …])         flinkbuf.Row, fields may be None
=================================  ==================================  ==========================================

A single type such as ``bigint`` at the top is that type alone, not a row of one field, and None is no value of it
unless the table says so (wrap it in ``Types.NULLABLE`` where the records themselves may be None). Lengths of char and
varchar, precision and scale of decimal, precision of times and timestamps (a microsecond is the finest), COLLATE and
comments do not change any byte and are not kept; of NOT NULL batches of columns are refused a null in such a column.
Interval, variant, geometry and geography have no counterpart in Flink and raise TypeError.

pyarrow types map likewise: unsigned integers to the next larger signed type and uint64 to BIG_INT, float16 to
FLOAT, timestamps with a zone to TIMESTAMP_LTZ and without one to LOCAL_DATE_TIME, dictionaries and extension types to
what they hold; durations and intervals raise TypeError.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flinkbuf.types.type_information import (
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    basic_type,
    row_type,
)

if TYPE_CHECKING:
    import pyarrow

_BINARY = PrimitiveArrayTypeInfo(basic_type("BYTE"))
_DEPTH_LIMIT = 100  # levels of nesting; deeper ones are mistakes, or an attempt to exhaust the stack

_SPARK_TYPES: dict[str, TypeInformation] = {
    "binary": _BINARY,
    **{
        spark: basic_type(ours)
        for spark, ours in {
            "boolean": "BOOLEAN",
            "tinyint": "BYTE",
            "byte": "BYTE",
            "smallint": "SHORT",
            "short": "SHORT",
            "int": "INT",
            "integer": "INT",
            "bigint": "LONG",
            "long": "LONG",
            "float": "FLOAT",
            "real": "FLOAT",
            "double": "DOUBLE",
            "string": "STRING",
            "char": "STRING",
            "character": "STRING",
            "varchar": "STRING",
            "decimal": "BIG_DEC",
            "dec": "BIG_DEC",
            "numeric": "BIG_DEC",
            "date": "LOCAL_DATE",
            "time": "LOCAL_TIME",
            "timestamp": "TIMESTAMP_LTZ",
            "timestamp_ltz": "TIMESTAMP_LTZ",
            "timestamp_ntz": "LOCAL_DATE_TIME",
            "void": "VOID",
        }.items()
    },
}
_PARAMETERS = {  # fewest and most numbers in brackets
    "char": (1, 1),
    "character": (1, 1),
    "varchar": (1, 1),
    "decimal": (0, 2),
    "dec": (0, 2),
    "numeric": (0, 2),
    "time": (0, 1),
    "timestamp_ltz": (0, 1),
    "timestamp_ntz": (0, 1),
}
_FINEST = 6  # digits of a second
_NO_COUNTERPART = ("interval", "variant", "geometry", "geography", "object")


def as_type(description: object) -> TypeInformation:
    """The type that `description` means. It is what every function that asks for a type calls.

    Parameters
    ----------
    description : TypeInformation, str, pyspark DataType, or pyarrow Schema, Field or DataType
        A type itself; a Spark DDL string, either of columns (``"origin string, delay double"``) or of one type
        (``"array<int>"``); a pyspark ``StructType`` or other type; a pyarrow schema, field or type.

    Returns
    -------
    TypeInformation
        As the table in this module says.

    Raises
    ------
    TypeError
        If it is none of these, or names a type that Flink has no counterpart for.
    ValueError
        If a DDL string cannot be read, or field names are not unique.

    Examples
    --------
    >>> as_type("origin string, delay double")
    Types.ROW_NAMED(['origin', 'delay'], [Types.STRING(), Types.DOUBLE()])
    >>> as_type("map<string, array<decimal(10, 2)>>")
    Types.MAP(Types.STRING(), Types.OBJECT_ARRAY(Types.BIG_DEC()))
    >>> as_type("a int, b strin")
    Traceback (most recent call last):
    ValueError: cannot read the DDL 'a int, b strin' at position 9: 'strin' is not a Spark type
    """
    if isinstance(description, TypeInformation):
        return description
    if isinstance(description, str):
        return _parse_ddl(description)
    # By the names of its classes' packages, so that neither is imported; a user's own type derives from theirs.
    packages = {each.__module__.partition(".")[0] for each in type(description).__mro__}
    if "pyspark" in packages and hasattr(description, "typeName"):
        return _from_pyspark(description, "", 0)
    if "pyarrow" in packages:
        return _from_pyarrow(description)
    raise TypeError(
        "a type is a flinkbuf.Types.…, a Spark DDL string such as 'origin string, delay double', a pyspark "
        f"DataType or a pyarrow schema; got {type(description).__name__} {description!r}"
    )


def _no_counterpart(name: str, where: str) -> TypeError:
    place = f" of field {where!r}" if where else ""
    return TypeError(f"Spark's {name}{place} has no counterpart in Flink; cast it first, for example to string")


# --------------------------------------------------------------------------------------------------------- DDL text

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)*`|\w+)|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<sign>[-<>(),:]))""",
    re.DOTALL,
)


class _DdlError(ValueError):
    """A mistake in the text, with its position."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


class _DdlParser:
    """Reads Spark's DDL by recursive descent, one token ahead."""

    def __init__(self, ddl: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []  # (group, text, position)
        self.index = 0
        self.depth = 0
        end = len(ddl.rstrip())
        position = 0
        while position < end:
            match = _TOKEN.match(ddl, position)
            if match is None:
                position += len(ddl[position:]) - len(ddl[position:].lstrip())
                raise _DdlError(position, f"{ddl[position]!r} does not belong here")
            group = match.lastgroup or ""
            self.tokens.append((group, match[group], match.start(group)))
            position = match.end()
        self.tokens.append(("end", "", end))

    def peek(self) -> str:
        """The next token in lower case; a quoted one as it stands."""
        return self.tokens[self.index][1].lower()

    def take(self) -> str:
        token = self.peek()
        self.index += token != ""
        return token

    def fail(self, expected: str) -> _DdlError:
        group, text, position = self.tokens[self.index]
        return _DdlError(position, f"{expected}, got {'the end' if group == 'end' else repr(text)}")

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.fail(f"{sign!r} must come here")
        self.take()

    def read_name(self) -> str:
        group, text, _ = self.tokens[self.index]
        if group != "name":
            raise self.fail("a column name must come here")
        self.index += 1
        return text[1:-1].replace("``", "`") if text.startswith("`") else text

    def read_number(self) -> None:
        if self.peek() == "-":
            self.take()
        if not self.peek().isdecimal():
            raise self.fail("a number must come here")
        self.take()

    def read_columns(self, end: str) -> RowTypeInfo:
        """Columns up to the token `end`, which is not taken."""
        names: list[str] = []
        types: list[TypeInformation] = []
        required: list[bool] = []
        while True:
            names.append(self.read_name())
            if self.peek() == ":":
                self.take()
            types.append(self.read_type())
            required.append(self.skip_attributes())
            if self.peek() != ",":
                break
            self.take()
        if self.peek() != end:
            raise self.fail("',' or the end of the columns must come here")
        return row_type(names, types, required)

    def skip_attributes(self) -> bool:
        """Whether NOT NULL is there, or COMMENT 'text', in any order; other clauses are no part of a type."""
        is_required = False
        while True:
            if self.peek() == "not":
                self.take()
                if self.peek() != "null":
                    raise self.fail("NULL must follow NOT")
                self.take()
                is_required = True
            elif self.peek() == "comment":
                self.take()
                if self.tokens[self.index][0] != "text":
                    raise self.fail("a quoted text must follow COMMENT")
                self.take()
            else:
                return is_required

    def read_type(self) -> TypeInformation:
        self.depth += 1
        if self.depth > _DEPTH_LIMIT:
            raise self.fail(f"types nest deeper than {_DEPTH_LIMIT} levels")
        group, text, position = self.tokens[self.index]
        if group != "name":
            raise self.fail("a type must come here")
        self.index += 1
        found = self.read_rest_of_type(text.lower(), text, position)
        self.depth -= 1
        return found

    def read_rest_of_type(self, name: str, text: str, position: int) -> TypeInformation:
        if name == "array":
            self.expect("<")
            element = self.read_type()
            self.expect(">")
            return ObjectArrayTypeInfo(element)
        if name == "map":
            self.expect("<")
            key = self.read_type()
            self.expect(",")
            value = self.read_type()
            self.expect(">")
            return MapTypeInfo(key, value)
        if name == "struct":
            self.expect("<")
            row = row_type([], []) if self.peek() == ">" else self.read_columns(">")
            self.expect(">")
            return row
        if name in _NO_COUNTERPART:
            raise _no_counterpart(name, "")
        if name not in _SPARK_TYPES:
            raise _DdlError(position, f"{text!r} is not a Spark type")
        self.read_parameters(name)
        return _SPARK_TYPES[name]

    def read_parameters(self, name: str) -> None:
        fewest, most = _PARAMETERS.get(name, (0, 0))
        if self.peek() == "(" and most:
            self.take()
            if name.startswith("timestamp") and self.peek().isdecimal() and int(self.peek()) > _FINEST:
                raise self.fail(f"{name} has at most {_FINEST} digits of a second")
            self.read_number()
            if self.peek() == "," and most > 1:
                self.take()
                self.read_number()
            self.expect(")")
        elif self.peek() == "(" and name == "timestamp":  # Flink's has no zone, Spark's has one
            raise self.fail(
                "timestamp takes no digits: say timestamp_ltz(3), or timestamp_ntz(3) for one without a zone"
            )
        elif fewest:
            raise self.fail(f"{name} needs a length in brackets")
        if name == "string" and self.peek() == "collate":
            self.take()
            self.read_name()

    def starts_columns(self) -> bool:
        """True where a name is followed by what can only be its type: "date" is a type, "date date" a column."""
        first, second = self.tokens[0], self.tokens[min(1, len(self.tokens) - 1)]
        if first[1].lower() == "interval" and second[1].lower() in ("year", "month", "day", "hour", "minute", "second"):
            return False
        follows = second[0] == "name" and second[1].lower() not in ("not", "comment", "collate")
        return first[0] == "name" and (follows or second[1] == ":")


class DecimalParser(_DdlParser):
    """Also keeps how many digits each decimal has, which makes no difference to its bytes."""

    def __init__(self, ddl: str) -> None:
        super().__init__(ddl)
        self.decimals: list[tuple[int, int]] = []
        self.numbers: list[int] = []

    @classmethod
    def decimals_of(cls, ddl: str) -> list[tuple[int, int]]:
        """Precision and scale of each decimal in a DDL text that can be read, in its order."""
        parser = cls(ddl)
        parser.read_columns("") if parser.starts_columns() else parser.read_type()
        return parser.decimals

    def read_number(self) -> None:
        start = self.index
        super().read_number()
        self.numbers.append(int("".join(text for _, text, _ in self.tokens[start : self.index])))

    def read_parameters(self, name: str) -> None:
        self.numbers = []
        super().read_parameters(name)
        if name in ("decimal", "dec", "numeric"):
            precision, scale = (self.numbers + [10, 0][len(self.numbers) :]) if self.numbers else (10, 0)
            self.decimals.append((precision, scale))


def _parse_ddl(ddl: str) -> TypeInformation:
    try:
        parser = _DdlParser(ddl)
        if parser.starts_columns():
            return parser.read_columns("")
        found = parser.read_type()
        parser.skip_attributes()
        if parser.peek() != "":
            raise parser.fail("nothing may follow a single type")
        return found
    except _DdlError as error:
        raise ValueError(f"cannot read the DDL {ddl!r} at position {error.position}: {error}") from None


# --------------------------------------------------------------------------------------------------------- pyspark


def _from_pyspark(data_type: Any, where: str, depth: int) -> TypeInformation:
    """From a pyspark type, by its own names: pyspark itself is not imported."""
    if depth > _DEPTH_LIMIT:
        raise ValueError(f"types nest deeper than {_DEPTH_LIMIT} levels at field {where!r}")
    if hasattr(data_type, "sqlType"):  # a user-defined type is kept as what it is stored as
        return _from_pyspark(type(data_type).sqlType(), where, depth + 1)
    name = data_type.typeName()
    if name == "array":
        return ObjectArrayTypeInfo(_from_pyspark(data_type.elementType, where, depth + 1))
    if name == "map":
        key = _from_pyspark(data_type.keyType, where, depth + 1)
        return MapTypeInfo(key, _from_pyspark(data_type.valueType, where, depth + 1))
    if name == "struct":
        prefix = f"{where}." if where else ""
        types = [_from_pyspark(each.dataType, prefix + each.name, depth + 1) for each in data_type.fields]
        return row_type(data_type.names, types, [not each.nullable for each in data_type.fields])
    found = _SPARK_TYPES.get(name)
    if found is None:
        raise _no_counterpart(name, where)
    return found


# --------------------------------------------------------------------------------------------------------- pyarrow

_ARROW_BASIC = (  # a predicate of pyarrow.types, and the name in Types
    ("is_null", "VOID"),
    ("is_boolean", "BOOLEAN"),
    ("is_int8", "BYTE"),
    ("is_int16", "SHORT"),
    ("is_int32", "INT"),
    ("is_int64", "LONG"),
    ("is_uint8", "SHORT"),
    ("is_uint16", "INT"),
    ("is_uint32", "LONG"),
    ("is_uint64", "BIG_INT"),
    ("is_float16", "FLOAT"),
    ("is_float32", "FLOAT"),
    ("is_float64", "DOUBLE"),
    ("is_string", "STRING"),
    ("is_large_string", "STRING"),
    ("is_string_view", "STRING"),
    ("is_decimal", "BIG_DEC"),
    ("is_date", "LOCAL_DATE"),
    ("is_time", "LOCAL_TIME"),
)
_ARROW_BINARY = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
_ARROW_LISTS = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")


def _from_pyarrow(description: object) -> TypeInformation:
    import pyarrow  # whoever has such an object has imported it already

    if isinstance(description, pyarrow.Schema):
        types = [_from_arrow_type(each.type, each.name) for each in description]
        return row_type(description.names, types, [not each.nullable for each in description])
    if isinstance(description, pyarrow.Field):
        return _from_arrow_type(description.type, description.name)
    if isinstance(description, pyarrow.DataType):
        return _from_arrow_type(description, "")
    raise TypeError(f"of pyarrow, a Schema, Field or DataType is a type; got {type(description).__name__}")


def _from_arrow_type(arrow: pyarrow.DataType, where: str) -> TypeInformation:
    from pyarrow import types

    def matches(names: tuple[str, ...]) -> bool:
        return any(hasattr(types, name) and getattr(types, name)(arrow) for name in names)

    if matches(_ARROW_BINARY):
        return _BINARY
    if matches(_ARROW_LISTS):
        return ObjectArrayTypeInfo(_from_arrow_type(arrow.value_type, where))
    if types.is_map(arrow):
        return MapTypeInfo(_from_arrow_type(arrow.key_type, where), _from_arrow_type(arrow.item_type, where))
    if types.is_struct(arrow):
        prefix = f"{where}." if where else ""
        parts = [arrow.field(i) for i in range(arrow.num_fields)]
        children = [_from_arrow_type(each.type, prefix + each.name) for each in parts]
        return row_type([each.name for each in parts], children, [not each.nullable for each in parts])
    if types.is_timestamp(arrow):
        return basic_type("LOCAL_DATE_TIME" if arrow.tz is None else "TIMESTAMP_LTZ")
    if matches(("is_dictionary", "is_run_end_encoded")):
        return _from_arrow_type(arrow.value_type, where)
    if hasattr(arrow, "storage_type"):
        return _from_arrow_type(arrow.storage_type, where)
    for predicate, ours in _ARROW_BASIC:
        if matches((predicate,)):
            return basic_type(ours)
    place = f" of field {where!r}" if where else ""
    raise TypeError(f"pyarrow's {arrow}{place} has no counterpart in Flink; cast it first")
