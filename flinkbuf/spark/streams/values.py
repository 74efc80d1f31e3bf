"""What users write into state, as it is kept: tuples of builtin values, checked against the state's schema.

Spark gives back what a schema makes of a value, so a `numpy.int64` comes back as an int and a timestamp in the zone of
the process. Here it is the same, but for what Spark changes silently: an int in a field of doubles, or a number that
does not fit, is an error.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

import pyspark.sql.types as spark
from pyspark.sql.types import _make_type_verifier

from flinkbuf._core.state.object_tables import PLAIN_KINDS, ObjectFields
from flinkbuf.types.type_information import object_type

Stored = tuple[Any, ...]  # hashable, and no part of it can change

_CODEC = object_type(trusted=False)  # writes builtin values, anything else as a pickle, which it does not read
_PICKLE = _CODEC.serialize(object())[:1]  # what a pickle begins with

_FLOATS = (spark.FloatType, spark.DoubleType)
_TEXTS = (spark.StringType, spark.CharType, spark.VarcharType)
_SCALARS = (  # what is kept of them is one number, string or bytes
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    *_FLOATS,
    *_TEXTS,
    spark.BinaryType,
    spark.DecimalType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.DayTimeIntervalType,
)
_NAN = "NaN"


class StateValues(ObjectFields):
    """What is kept of the values of one state, and what becomes of it when it is read.

    Parameters
    ----------
    schema : StructType
        The fields of a value.
    where : str
        Which state it is, for messages.

    Attributes
    ----------
    description : str
        What two programs must have in common to read the same values: the types of the fields, in order.

    Examples
    --------
    >>> values = StateValues(spark.StructType().add("n", "long"), "the state 'count'")
    >>> values.stored((1,))
    (1,)
    """

    are_keys = False

    def __init__(self, schema: spark.StructType, where: str) -> None:
        self._where = where
        self.schema = schema
        self.description = ",".join(field.dataType.simpleString() for field in schema.fields)
        super().__init__([(self.kind_of(field.dataType), field.nullable) for field in schema.fields])
        self._count = len(schema.fields)
        self._verify = [_make_type_verifier(field.dataType, field.nullable, field.name) for field in schema.fields]
        self._pairs = [_pair_of(field.dataType, self.are_keys) for field in schema.fields]

    def kind_of(self, data_type: spark.DataType) -> int:
        """Return a number of `PLAIN_KINDS`, 0 if values of a type are not kept as they are."""
        return PLAIN_KINDS.get(data_type.simpleString(), 0)

    def as_seen(self, stored: Stored) -> Stored:
        """Return the tuple that a user gets."""
        return tuple(None if each is None else give(each) for each, (_, give) in zip(stored, self._pairs, strict=True))

    def converted(self, value: Any) -> Stored:
        """Return what is kept of a value that is not, as it comes, what its schema says."""
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise TypeError(
                f"{self._where} takes a tuple with the {self._count} values of {self._names()}, got {value!r}"
            )
        if len(value) != self._count:
            raise ValueError(
                f"{self._where} takes {self._count} values, {self._names()}, got {len(value)} in {value!r}"
            )
        kept = []
        for each, field, verify, (keep, _) in zip(value, self.schema.fields, self._verify, self._pairs, strict=True):
            plain = _as_builtin(each)
            try:
                verify(plain)
                kept.append(None if plain is None else keep(plain))
            except (TypeError, ValueError, OverflowError, DecimalException) as error:
                kind = type(error) if type(error) in (TypeError, ValueError) else ValueError
                raise kind(f"{self._where}, field {field.name!r}: {error}") from error
        return tuple(kept)

    def _names(self) -> str:
        return ", ".join(repr(name) for name in self.schema.names)


class StateKeys(StateValues):
    """What is kept of the keys of a map: where users see equal ones, it is equal."""

    are_keys = True

    def kind_of(self, data_type: spark.DataType) -> int:
        """Return 0 for floats: all NaN are one key, and both zeros."""
        return 0 if isinstance(data_type, _FLOATS) else super().kind_of(data_type)

    def converted(self, value: Any) -> Stored:
        """Return what is kept of a key."""
        return as_lookup(super().converted(value))

    def as_seen(self, stored: Stored) -> Stored:
        """Return the key that a user gets."""
        return super().as_seen(from_lookup(stored, self.schema))


def has_floats(schema: spark.StructType) -> bool:
    """Whether a field may hold NaN, which is equal to nothing, or -0.0, which is equal to 0.0 and has other bytes."""
    return any(isinstance(field.dataType, _FLOATS) for field in schema.fields)


def as_lookup(key: Stored) -> Stored:
    """Return what stands for a key with floats in dicts: all NaN are one key, and both zeros."""
    return tuple(each if type(each) is not float else _NAN if each != each else each + 0.0 for each in key)


def from_lookup(key: Stored, schema: spark.StructType) -> Stored:
    """Return the key that `as_lookup` was given."""
    return tuple(
        math.nan if each == _NAN and isinstance(field.dataType, _FLOATS) else each
        for each, field in zip(key, schema.fields, strict=True)
    )


def encode(value: object) -> bytes:
    """Write a value of builtin classes.

    Raises
    ------
    TypeError
        If something in it is of another class: it would be a pickle, which nobody reads again.
    """
    data = _CODEC.serialize(value)
    if data[:1] == _PICKLE:
        raise TypeError(
            "a value is of a class that is not one of Python's own, and a checkpoint does not hold it: keep builtin "
            "values in state"
        )
    return data


def decode(data: bytes) -> Any:
    """Read what `encode` wrote; a pickle is refused."""
    return _CODEC.deserialize(data)


def _as_builtin(value: Any) -> Any:
    """Return the builtin value for one of numpy or pandas, or a string of another class, also inside lists and such."""
    kind = type(value)
    if kind in (bool, int, float, str, bytes, Decimal, type(None)):
        return value
    if kind is bytearray:
        return bytes(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, tuple):
        parts = [_as_builtin(each) for each in value]
        return kind(*parts) if hasattr(value, "_fields") or isinstance(value, spark.Row) else kind(parts)
    if isinstance(value, list):
        return [_as_builtin(each) for each in value]
    if isinstance(value, dict):
        return {_as_builtin(key): _as_builtin(each) for key, each in value.items()}
    for method in ("to_pytimedelta", "to_pydatetime"):  # pandas
        if hasattr(value, method):
            return getattr(value, method)()
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return value


def _pair_of(data_type: spark.DataType, is_key: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return how a value is kept, and how it comes back."""
    keep = _keep_of(data_type, is_key)
    if isinstance(data_type, _SCALARS):
        return keep, data_type.fromInternal
    # A list or a dict that a user keeps may change; bytes do not.
    return lambda value: encode(keep(value)), lambda data: data_type.fromInternal(decode(data))


def _keep_of(data_type: spark.DataType, is_key: bool) -> Callable[[Any], Any]:
    """Return what brings a value to its type, with all that is in it, as Spark's ``toInternal`` has it.

    Spark has verified the value, and lets pass what its JVM changes then: anything as a string, decimals of other
    digits, and floats of 64 bits as those of 32.
    """
    if isinstance(data_type, _TEXTS):
        return _text
    if isinstance(data_type, spark.DecimalType):
        return _decimal_of(data_type.precision, data_type.scale)
    if isinstance(data_type, _FLOATS):
        round_it = _single if isinstance(data_type, spark.FloatType) else _same
        return (lambda value: _one_of_equals(round_it(value))) if is_key else round_it
    if isinstance(data_type, spark.ArrayType):
        keep = _keep_part(data_type.elementType, is_key)
        return lambda values: list(map(keep, values))
    if isinstance(data_type, spark.MapType):
        return _map_of(_keep_of(data_type.keyType, is_key), _keep_part(data_type.valueType, is_key))
    if isinstance(data_type, spark.StructType):
        return _struct_of(data_type.names, [_keep_part(field.dataType, is_key) for field in data_type.fields])
    if isinstance(data_type, spark.UserDefinedType):
        keep = _keep_part(data_type.sqlType(), is_key)
        return lambda value: keep(_as_builtin(data_type.serialize(value)))
    if isinstance(data_type, spark.VariantType):
        return _variant_of(data_type)
    return data_type.toInternal


def _keep_part(data_type: spark.DataType, is_key: bool) -> Callable[[Any], Any]:
    keep = _keep_of(data_type, is_key)
    return lambda value: None if value is None else keep(value)


def _map_of(keep_key: Callable[[Any], Any], keep_value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def kept(entries: dict[Any, Any]) -> dict[Any, Any]:
        found = {keep_key(key): keep_value(value) for key, value in entries.items()}
        if len(found) < len(entries):
            raise ValueError(f"two keys of {entries!r} become one")
        return found

    return kept


def _struct_of(names: list[str], keeps: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def kept(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list)):  # fields by name
            fields = value if isinstance(value, dict) else vars(value)
            value = [fields.get(name) for name in names]
        return tuple(keep(each) for keep, each in zip(keeps, value, strict=True))

    return kept


def _variant_of(data_type: spark.VariantType) -> Callable[[Any], Any]:
    def kept(value: Any) -> Any:
        if not isinstance(value, spark.VariantVal):
            raise TypeError(f"{value!r} is no VariantVal")
        return data_type.toInternal(value)

    return kept


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no string")
    return value


def _single(value: float) -> float:
    """Return the nearest float of 32 bits, which is what a field of that type holds."""
    rounded = struct.unpack("f", struct.pack("f", value))[0]
    if math.isinf(rounded) and not math.isinf(value):
        raise ValueError(f"{value} does not fit into a float of 32 bits")
    return rounded


def _one_of_equals(value: float) -> float:
    """Return the same float for both zeros, and for all NaN."""
    return value + 0.0 if value == value else math.nan


def _decimal_of(precision: int, scale: int) -> Callable[[Decimal], Decimal]:
    """Return what gives a decimal the scale of its field; one that would lose digits is refused."""
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-scale)

    def scaled(value: Decimal) -> Decimal:
        if not value.is_finite():
            raise ValueError(f"{value} is no number of decimal({precision},{scale})")
        try:
            return value.quantize(unit, context=context)
        except DecimalException:
            raise ValueError(f"{value} does not fit into decimal({precision},{scale})") from None

    return scaled


def _same(value: Any) -> Any:
    return value
