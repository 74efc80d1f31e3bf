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

_PLAIN = (  # kept as they are
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.DoubleType,
    spark.StringType,
    spark.BinaryType,
)
_FLOATS = (spark.FloatType, spark.DoubleType)
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

    def __init__(self, schema: spark.StructType, where: str) -> None:
        self._where = where
        self.schema = schema
        self.description = ",".join(field.dataType.simpleString() for field in schema.fields)
        super().__init__([(self.kind_of(field.dataType), field.nullable) for field in schema.fields])
        self._count = len(schema.fields)
        self._verify = [_make_type_verifier(field.dataType, field.nullable, field.name) for field in schema.fields]
        self._pairs = [_pair_of(field.dataType) for field in schema.fields]

    def kind_of(self, data_type: spark.DataType) -> int:
        """Return a number of `PLAIN_KINDS`, 0 if values of a type are not kept as they are."""
        is_plain = data_type.simpleString() in PLAIN_KINDS and _pair_of(data_type) is None
        return PLAIN_KINDS[data_type.simpleString()] if is_plain else 0

    def as_seen(self, stored: Stored) -> Stored:
        """Return the tuple that a user gets."""
        return tuple(
            each if each is None or pair is None else pair[1](each)
            for each, pair in zip(stored, self._pairs, strict=True)
        )

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
        for each, field, verify, pair in zip(value, self.schema.fields, self._verify, self._pairs, strict=True):
            plain = _as_builtin(each)
            try:
                verify(plain)  # which lets anything pass as a string
                if isinstance(field.dataType, spark.StringType) and not isinstance(plain, (str, type(None))):
                    raise TypeError(f"{plain!r} is no string")
                kept.append(plain if plain is None or pair is None else pair[0](plain))
            except (TypeError, ValueError, OverflowError, DecimalException) as error:
                raise (
                    type(error)(f"{self._where}, field {field.name!r}: {error}")
                    if type(error)
                    in (
                        TypeError,
                        ValueError,
                    )
                    else ValueError(f"{self._where}, field {field.name!r}: {error}")
                ) from error
        return tuple(kept)

    def _names(self) -> str:
        return ", ".join(repr(name) for name in self.schema.names)


class StateKeys(StateValues):
    """What is kept of the keys of a map: where users see equal ones, it is equal."""

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


def _pair_of(data_type: spark.DataType) -> tuple[Callable[[Any], Any], Callable[[Any], Any]] | None:
    """Return how a value is kept and how it comes back; None if it is kept as it is."""
    if isinstance(data_type, _PLAIN):
        return None
    if isinstance(data_type, spark.FloatType):
        return _single, float
    if isinstance(data_type, spark.DecimalType):
        return _decimal_of(data_type.precision, data_type.scale), _same
    if isinstance(data_type, (spark.StructType, spark.ArrayType, spark.MapType)):
        # A list or a dict that a user keeps may change; bytes do not.
        return (
            lambda value: encode(data_type.toInternal(value)),
            lambda data: data_type.fromInternal(decode(data)),
        )
    if data_type.needConversion():
        return data_type.toInternal, data_type.fromInternal
    return None


def _single(value: float) -> float:
    """Return the nearest float of 32 bits, which is what a field of that type holds."""
    return struct.unpack("f", struct.pack("f", value))[0]


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
