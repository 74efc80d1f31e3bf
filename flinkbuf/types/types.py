"""The types of records: `Types` makes them under PyFlink's names, `as_type` reads what Spark and pyarrow call them.

A type knows its bytes (exactly what Flink 2.2's ``TypeSerializer`` writes) and its Python values. Nothing is
converted silently: what a type cannot hold exactly raises TypeError (not of the type), OverflowError (a number out
of range) or ValueError (a missing field, a fraction that would be lost), and the message names the field.

How Spark's types map to these is a table in `flinkbuf.types.schema`; what is taken from a sample when no type is
declared is written in `flinkbuf.types.inference`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from flinkbuf.types.inference import infer_type
from flinkbuf.types.row_data import (
    ArrayDataTypeInfo,
    LeafDataTypeInfo,
    MapDataTypeInfo,
    RowDataTypeInfo,
    leaf_data_type,
    row_data,
    row_data_type,
)
from flinkbuf.types.schema import as_type
from flinkbuf.types.type_information import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    EitherTypeInfo,
    EnumTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NullableTypeInfo,
    ObjectArrayTypeInfo,
    ObjectTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SetTypeInfo,
    StreamElementTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    basic_type,
    column_dtype,
    object_type,
    row_type,
)

__all__ = [
    "ArrayDataTypeInfo",
    "BasicArrayTypeInfo",
    "BasicTypeInfo",
    "EitherTypeInfo",
    "EnumTypeInfo",
    "LeafDataTypeInfo",
    "ListTypeInfo",
    "MapDataTypeInfo",
    "MapTypeInfo",
    "NullableTypeInfo",
    "ObjectArrayTypeInfo",
    "ObjectTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowDataTypeInfo",
    "RowTypeInfo",
    "SetTypeInfo",
    "StreamElementTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "as_type",
    "column_dtype",
    "infer_type",
    "object_type",
    "row_data_type",
]


class Types:
    """Makes types, under PyFlink's names; what follows PICKLED_BYTE_ARRAY and what follows MAP is beyond PyFlink.

    Wherever a factory asks for a type, all that `as_type` reads will do: ``Types.LIST("int")``.

    Examples
    --------
    >>> Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.DOUBLE()])
    Types.ROW_NAMED(['origin', 'delay'], [Types.STRING(), Types.DOUBLE()])
    >>> Types.MAP("string", Types.NULLABLE("int")).value_type
    Types.NULLABLE(Types.INT())
    """

    # --- values without parts

    @staticmethod
    def BOOLEAN() -> BasicTypeInfo:
        """bool; numpy.bool_ is taken, other numbers are refused. Bytes of Flink's BooleanSerializer, 1 byte."""
        return basic_type("BOOLEAN")

    @staticmethod
    def BYTE() -> BasicTypeInfo:
        """int from −128 to 127.

        Numpy's ints are taken, bool and float are refused. Bytes of Flink's ByteSerializer, 1 byte.
        """
        return basic_type("BYTE")

    @staticmethod
    def SHORT() -> BasicTypeInfo:
        """int from −32,768 to 32,767; as for `BYTE`. Bytes of Flink's ShortSerializer, 2 bytes."""
        return basic_type("SHORT")

    @staticmethod
    def INT() -> BasicTypeInfo:
        """int from −2**31 to 2**31 − 1; as for `BYTE`. Bytes of Flink's IntSerializer, 4 bytes."""
        return basic_type("INT")

    @staticmethod
    def LONG() -> BasicTypeInfo:
        """int from −2**63 to 2**63 − 1; as for `BYTE`. Bytes of Flink's LongSerializer, 8 bytes."""
        return basic_type("LONG")

    @staticmethod
    def FLOAT() -> BasicTypeInfo:
        """float of 32 bits.

        What is not exact in 32 bits is rounded, as ``(float)`` does in Java, what is beyond its range refused.
        Bytes of Flink's FloatSerializer, 4 bytes.
        """
        return basic_type("FLOAT")

    @staticmethod
    def DOUBLE() -> BasicTypeInfo:
        """float.

        An int is taken if it is exact. −0.0 and infinities are kept, and every NaN is written as Java's one
        NaN. Bytes of Flink's DoubleSerializer, 8 bytes.
        """
        return basic_type("DOUBLE")

    @staticmethod
    def CHAR() -> BasicTypeInfo:
        """str of one UTF-16 unit: a character up to U+FFFF. Bytes of Flink's CharSerializer, 2 bytes."""
        return basic_type("CHAR")

    @staticmethod
    def STRING() -> BasicTypeInfo:
        """str, or None. Bytes of Flink's StringSerializer.

        Lone surrogates are kept. A high one directly followed by a low one is refused (ValueError): in Java the two
        are one character, and they would come back as that.
        """
        return basic_type("STRING")

    @staticmethod
    def BIG_INT() -> BasicTypeInfo:
        """int of any size, or None. ``java.math.BigInteger``. Bytes of Flink's BigIntSerializer."""
        return basic_type("BIG_INT")

    @staticmethod
    def BIG_DEC() -> BasicTypeInfo:
        """decimal.Decimal with its scale (``1.0`` and ``1.00`` differ), or None.

        NaN and infinities are refused. ``java.math.BigDecimal``. Bytes of Flink's BigDecSerializer.
        """
        return basic_type("BIG_DEC")

    @staticmethod
    def SQL_DATE() -> BasicTypeInfo:
        """datetime.date, or None.

        `flinkbuf.types.SqlDate` where it is not at midnight UTC or outside the years 1 … 9999. ``java.sql.Date``.
        Bytes of Flink's SqlDateSerializer, 8 bytes.
        """
        return basic_type("SQL_DATE")

    @staticmethod
    def SQL_TIME() -> BasicTypeInfo:
        """datetime.time to the millisecond, or None.

        `flinkbuf.types.SqlTime` outside 1970-01-01. ``java.sql.Time``. Bytes of Flink's SqlTimeSerializer, 8 bytes.
        """
        return basic_type("SQL_TIME")

    @staticmethod
    def SQL_TIMESTAMP() -> BasicTypeInfo:
        """naive datetime.datetime, read as UTC as in PyFlink, or None.

        `flinkbuf.types.SqlTimestamp` where nanoseconds or the year would be lost. ``java.sql.Timestamp``. Bytes of
        Flink's SqlTimestampSerializer, 12 bytes.
        """
        return basic_type("SQL_TIMESTAMP")

    @staticmethod
    def INSTANT() -> BasicTypeInfo:
        """`flinkbuf.common.Instant`, or None.

        A datetime is refused, as PyFlink refuses it: ``Instant.from_datetime`` makes an Instant of one, and
        `TIMESTAMP_LTZ` has datetimes for the same bytes. ``java.time.Instant``. Bytes of Flink's InstantSerializer,
        12 bytes.

        Examples
        --------
        >>> Types.INSTANT().deserialize(bytes([0] * 7 + [5] + [0] * 4))
        Instant<5, 0>
        """
        return basic_type("INSTANT")

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> BasicTypeInfo:
        """any object that pickles, None too.

        Where pickle cannot, as for lambdas and for classes that another process has in ``__main__``, cloudpickle is
        used if it is imported by then, as it is with pyspark; the reader needs it too.
        Reading unpickles, so declare it only for data you trust. Bytes of Flink's BytePrimitiveArraySerializer
        over the pickled bytes, as in PyFlink.
        """
        return basic_type("PICKLED_BYTE_ARRAY")

    @staticmethod
    def TIMESTAMP_LTZ() -> BasicTypeInfo:
        """aware datetime.datetime, given back in UTC, or None.

        An `Instant` where nanoseconds or the year would be lost. A naive datetime is refused, as it names no point in
        time. ``as_type("timestamp")`` is this type. Bytes of Flink's InstantSerializer, 12 bytes, as of `INSTANT`.
        """
        return basic_type("TIMESTAMP_LTZ")

    @staticmethod
    def LOCAL_DATE() -> BasicTypeInfo:
        """datetime.date (no datetime, whose time would be lost), or None.

        `flinkbuf.types.LocalDate` outside the years 1 … 9999. ``java.time.LocalDate``. Bytes of Flink's
        LocalDateSerializer, 6 bytes.
        """
        return basic_type("LOCAL_DATE")

    @staticmethod
    def LOCAL_TIME() -> BasicTypeInfo:
        """datetime.time without a zone, or None.

        `flinkbuf.types.LocalTime` where nanoseconds would be lost. ``fold`` is not kept, as Java has none.
        ``java.time.LocalTime``. Bytes of Flink's LocalTimeSerializer, 7 bytes.
        """
        return basic_type("LOCAL_TIME")

    @staticmethod
    def LOCAL_DATE_TIME() -> BasicTypeInfo:
        """naive datetime.datetime, or None.

        `flinkbuf.types.LocalDateTime` where nanoseconds or the year would be lost. ``fold`` is not kept, as Java
        has none. ``java.time.LocalDateTime``. Bytes of Flink's LocalDateTimeSerializer, 13 bytes.
        """
        return basic_type("LOCAL_DATE_TIME")

    @staticmethod
    def DATE() -> BasicTypeInfo:
        """aware datetime.datetime to the millisecond, given back in UTC, or None.

        `flinkbuf.types.JavaDate` outside the years 1 … 9999. ``java.util.Date``. Bytes of Flink's DateSerializer, 8
        bytes.
        """
        return basic_type("DATE")

    @staticmethod
    def VOID() -> BasicTypeInfo:
        """None only. Bytes of Flink's VoidSerializer, 1 byte."""
        return basic_type("VOID")

    @staticmethod
    def BOOLEAN_VALUE() -> BasicTypeInfo:
        """As `BOOLEAN`.

        ``org.apache.flink.types.BooleanValue``. Bytes of Flink's BooleanValueSerializer, 1 byte.
        """
        return basic_type("BOOLEAN_VALUE")

    @staticmethod
    def BYTE_VALUE() -> BasicTypeInfo:
        """As `BYTE`. ``ByteValue``. Bytes of Flink's ByteValueSerializer, 1 byte."""
        return basic_type("BYTE_VALUE")

    @staticmethod
    def SHORT_VALUE() -> BasicTypeInfo:
        """As `SHORT`. ``ShortValue``. Bytes of Flink's ShortValueSerializer, 2 bytes."""
        return basic_type("SHORT_VALUE")

    @staticmethod
    def CHAR_VALUE() -> BasicTypeInfo:
        """As `CHAR`. ``CharValue``. Bytes of Flink's CharValueSerializer, 2 bytes."""
        return basic_type("CHAR_VALUE")

    @staticmethod
    def INT_VALUE() -> BasicTypeInfo:
        """As `INT`. ``IntValue``. Bytes of Flink's IntValueSerializer, 4 bytes."""
        return basic_type("INT_VALUE")

    @staticmethod
    def LONG_VALUE() -> BasicTypeInfo:
        """As `LONG`. ``LongValue``. Bytes of Flink's LongValueSerializer, 8 bytes."""
        return basic_type("LONG_VALUE")

    @staticmethod
    def FLOAT_VALUE() -> BasicTypeInfo:
        """As `FLOAT`. ``FloatValue``. Bytes of Flink's FloatValueSerializer, 4 bytes."""
        return basic_type("FLOAT_VALUE")

    @staticmethod
    def DOUBLE_VALUE() -> BasicTypeInfo:
        """As `DOUBLE`. ``DoubleValue``. Bytes of Flink's DoubleValueSerializer, 8 bytes."""
        return basic_type("DOUBLE_VALUE")

    @staticmethod
    def STRING_VALUE() -> BasicTypeInfo:
        """str.

        Unlike for `STRING`, None is refused. ``StringValue``. Bytes of Flink's StringValueSerializer.
        """
        return basic_type("STRING_VALUE")

    @staticmethod
    def NULL_VALUE() -> BasicTypeInfo:
        """None only. ``NullValue``. Bytes of Flink's NullValueSerializer, no bytes."""
        return basic_type("NULL_VALUE")

    # --- values with parts

    @staticmethod
    def ROW(field_types: Iterable[object]) -> RowTypeInfo:
        """A row whose fields have no names. Bytes of Flink's RowSerializer.

        The Python value is a `flinkbuf.Row`; any tuple or list of as many fields is taken and is an insertion.
        Each field may be None. Fields are addressed as ``f0``, ``f1``, … where a name is asked for.

        Parameters
        ----------
        field_types : iterable of types
        """
        return row_type(None, map(as_type, field_types))

    @staticmethod
    def ROW_NAMED(field_names: Iterable[str], field_types: Iterable[object]) -> RowTypeInfo:
        """A row with field names. Bytes of Flink's RowSerializer; the names are not among them.

        The Python value is a `flinkbuf.Row` whose fields are attributes too. Taken by name are rows of ours and of
        pyspark and dicts, which must have exactly these fields; by position other tuples and lists. Each field
        may be None.

        Parameters
        ----------
        field_names : iterable of str
            All different.
        field_types : iterable of types
            As many.

        Raises
        ------
        ValueError
            If a name occurs twice, or there are more or fewer names than types.
        """
        return row_type(tuple(field_names), map(as_type, field_types))

    @staticmethod
    def TUPLE(field_types: Iterable[object]) -> TupleTypeInfo:
        """A tuple. Bytes of Flink's TupleSerializer, which has no form for None.

        The Python value is a plain tuple; a list of as many fields is taken too. A field is None only if its type
        says so: wrap it in `NULLABLE`, or use `ROW`.

        Parameters
        ----------
        field_types : iterable of types
        """
        return TupleTypeInfo(tuple(map(as_type, field_types)))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: object, numpy: bool = False) -> PrimitiveArrayTypeInfo:
        """A Java array of primitives, such as ``int[]``. Bytes of Flink's IntPrimitiveArraySerializer and so on.

        The Python value of ``PRIMITIVE_ARRAY(BYTE)`` is bytes (bytearray and memoryview are taken), that of the
        others a list; any sequence and one-dimensional numpy array of the element's range is taken. No None inside.

        Parameters
        ----------
        element_type : type
            BOOLEAN, BYTE, SHORT, CHAR, INT, LONG, FLOAT or DOUBLE.
        numpy : bool, default False
            Give numpy arrays instead, shape ``(n,)``, of bool, int8, int16, uint16 (the UTF-16 units), int32,
            int64, float32 or float64. The bytes are the same.

        Raises
        ------
        TypeError
            For another element type.
        """
        return PrimitiveArrayTypeInfo(as_type(element_type), bool(numpy))

    @staticmethod
    def BASIC_ARRAY(element_type: object) -> BasicArrayTypeInfo:
        """An array of Java's boxed primitives or of strings; its elements may be None. The Python value is a list.

        Bytes of Flink's StringArraySerializer for STRING, of GenericArraySerializer for the others.

        Parameters
        ----------
        element_type : type
            BOOLEAN, BYTE, SHORT, CHAR, INT, LONG, FLOAT, DOUBLE or STRING.

        Raises
        ------
        TypeError
            For another element type: use `OBJECT_ARRAY`.
        """
        return BasicArrayTypeInfo(as_type(element_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: object) -> ObjectArrayTypeInfo:
        """An array of anything; its elements may be None. Bytes of Flink's GenericArraySerializer.

        The Python value is a list; other sequences are taken, such as numpy arrays of one dimension.
        """
        return ObjectArrayTypeInfo(as_type(element_type))

    @staticmethod
    def LIST(element_type_info: object) -> ListTypeInfo:
        """A list; its elements are None only if their type says so. Bytes of Flink's ListSerializer.

        The Python value is a list; a tuple is taken too. Of a numpy array give ``.tolist()``, or declare a
        `PRIMITIVE_ARRAY`.
        """
        return ListTypeInfo(as_type(element_type_info))

    @staticmethod
    def MAP(key_type_info: object, value_type_info: object) -> MapTypeInfo:
        """A map in its order; values may be None. Bytes of Flink's MapSerializer. The Python value is a dict.

        Keys are None only if their type says so, and must be hashable in Python. Two keys that have the same bytes
        (0.1 and the float32 nearest to it as FLOAT, as TIMESTAMP_LTZ an `Instant` and the datetime of the same time)
        are refused (ValueError), as are on reading keys that differ in Java but are equal in Python (0.0 and −0.0),
        with CorruptDataError.
        """
        return MapTypeInfo(as_type(key_type_info), as_type(value_type_info))

    @staticmethod
    def SET(element_type: object) -> SetTypeInfo:
        """A set; elements may be None. Bytes of Flink's SetSerializer. The Python value is a set.

        A frozenset is taken too. Elements are written in the order in which Python walks through the set. Those with
        the same bytes, or on reading those that are equal in Python, are refused as the keys of a `MAP` are.
        """
        return SetTypeInfo(as_type(element_type))

    @staticmethod
    def ENUM(symbols: type[Enum] | Iterable[object]) -> EnumTypeInfo:
        """One of a few values, written as its position. Bytes of Flink's EnumSerializer, 4 bytes.

        Parameters
        ----------
        symbols : enum class, or iterable of str or other hashable values
            In the order of the Java enum. With a class the Python value is a member, else one of the values; a bool
            is not taken for a number among them.

        Raises
        ------
        TypeError
            For an `enum.Flag`, whose values combine.
        ValueError
            If there is none, or one occurs twice.

        Examples
        --------
        >>> Types.ENUM(["RED", "GREEN"]).values
        ('RED', 'GREEN')
        """
        if isinstance(symbols, str):
            raise TypeError(f"ENUM takes its values as a list, got the str {symbols!r}")
        is_class = isinstance(symbols, type) and issubclass(symbols, Enum)
        return EnumTypeInfo(symbols if is_class else tuple(symbols))  # type: ignore[arg-type]

    @staticmethod
    def EITHER(left_type: object, right_type: object) -> EitherTypeInfo:
        """One of two types. Bytes of Flink's EitherSerializer.

        The Python value is ``flinkbuf.types.Left(value)`` or ``flinkbuf.types.Right(value)``.
        """
        return EitherTypeInfo(as_type(left_type), as_type(right_type))

    @staticmethod
    def NULLABLE(value_type: object, padded: bool = False) -> NullableTypeInfo:
        """Another type, and None. Bytes of Flink's NullableSerializer: one byte, then the value.

        Parameters
        ----------
        value_type : type
        padded : bool, default False
            None takes as many bytes as a value does; without effect where those vary, as in Flink.
        """
        return NullableTypeInfo(as_type(value_type), bool(padded))

    @staticmethod
    def STREAM_ELEMENT(value_type: object) -> StreamElementTypeInfo:
        """What travels between operators of a stream. Bytes of Flink's StreamElementSerializer.

        The Python values are `flinkbuf.types.StreamRecord` (its value of `value_type`), `Watermark`, `WatermarkStatus`,
        `LatencyMarker`, `RecordAttributes` and `InternalWatermark`.
        """
        return StreamElementTypeInfo(as_type(value_type))

    # --- what the table runtime has

    @staticmethod
    def ROW_DATA(
        field_names: Iterable[str], field_types: Iterable[object], not_null: Iterable[str] = ()
    ) -> RowDataTypeInfo:
        """A row of Flink's table runtime, in its binary format: the fastest for batches of columns.

        Bytes of Flink's RowDataSerializer. The Python value is a `flinkbuf.Row`, taken as for `ROW_NAMED`. The types of
        the fields become those of the table runtime, as the table in `flinkbuf.types.row_data` says;
        `flinkbuf.types.row_data_type` makes one of a Spark or Arrow schema. Key groups are those of Flink SQL
        (``BinaryRowData.hashCode`` of the key's fields), in which a null is a value like any other.

        Parameters
        ----------
        field_names : iterable of str
            All different.
        field_types : iterable of types
            As many.
        not_null : iterable of str, default ()
            Names of fields that refuse None.

        Raises
        ------
        TypeError
            For a type that such a row cannot hold, such as ENUM or SET; the message names the field.
        ValueError
            If a name occurs twice, or there are more or fewer names than types.

        Examples
        --------
        >>> row = Types.ROW_DATA(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> row.serialize((1, "short")).hex(" ", 8)
        '00000018 0000000000000000 0100000000000000 73686f7274000085'
        """
        return row_data(field_names, field_types, not_null)

    @staticmethod
    def STRING_DATA() -> LeafDataTypeInfo:
        """str. Lone surrogates are refused. Bytes of Flink's StringDataSerializer: a length and UTF-8."""
        return leaf_data_type("STRING_DATA")

    @staticmethod
    def DECIMAL_DATA(precision: int, scale: int) -> LeafDataTypeInfo:
        """decimal.Decimal of up to `precision` digits, `scale` of them behind the point.

        An int is taken too. One with fewer behind the point is filled up with zeros, one with more is refused unless
        they are zeros. Bytes of
        Flink's DecimalDataSerializer.

        Parameters
        ----------
        precision : int
            1 to 38; up to 18 fit the slot of a row.
        scale : int
            0 to `precision`.
        """
        return leaf_data_type("DECIMAL_DATA", precision, scale)

    @staticmethod
    def DATE_DATA() -> LeafDataTypeInfo:
        """As `LOCAL_DATE`, in 4 bytes of days: years up to 5.8 million. Bytes of Flink's IntSerializer."""
        return leaf_data_type("DATE_DATA")

    @staticmethod
    def TIME_DATA() -> LeafDataTypeInfo:
        """As `LOCAL_TIME`, of whole milliseconds; what is finer is refused. Bytes of Flink's IntSerializer."""
        return leaf_data_type("TIME_DATA")

    @staticmethod
    def TIMESTAMP_DATA(precision: int = 6) -> LeafDataTypeInfo:
        """As `LOCAL_DATE_TIME`. Bytes of Flink's TimestampDataSerializer.

        Parameters
        ----------
        precision : int, default 6
            Digits of a second, 0 to 9. Up to 3 only milliseconds are kept, and what is finer is refused; from 4 on
            nanoseconds are.
        """
        return leaf_data_type("TIMESTAMP_DATA", precision)

    @staticmethod
    def TIMESTAMP_LTZ_DATA(precision: int = 6) -> LeafDataTypeInfo:
        """As `TIMESTAMP_LTZ`; `precision` as for `TIMESTAMP_DATA`. Bytes of Flink's TimestampDataSerializer."""
        return leaf_data_type("TIMESTAMP_LTZ_DATA", precision)

    @staticmethod
    def ARRAY_DATA(element_type: object) -> ArrayDataTypeInfo:
        """A list, or another sequence; its elements may be None. Bytes of Flink's ArrayDataSerializer."""
        return ArrayDataTypeInfo(as_type(element_type))

    @staticmethod
    def MAP_DATA(key_type: object, value_type: object) -> MapDataTypeInfo:
        """A dict in its order; keys and values may be None. Bytes of Flink's MapDataSerializer."""
        return MapDataTypeInfo(as_type(key_type), as_type(value_type))
