"""Avro in messages that name their schema by its number in a registry. Flink: flink-avro-confluent-registry."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from flinkbuf.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    fastavro_library,
)
from flinkbuf.datastream.formats.schema_registry import RegisteredSchema, SchemaRegistry, number_of, numbered
from flinkbuf.errors import CorruptDataError, FlinkbufError

__all__ = ["ConfluentRegistryAvroRowDeserializationSchema", "ConfluentRegistryAvroRowSerializationSchema"]

_HEADER_BYTES = 5


class ConfluentRegistryAvroRowDeserializationSchema(AvroRowDeserializationSchema):
    """Makes a row of a message in Avro's binary format that names its writer's schema by a number.

    The schema is fetched from the registry when its number first comes, and what it has written is read as the schema
    that is given here, by Avro's rules: other orders, defaults of fields that are missing, wider numbers.

    Parameters
    ----------
    avro_schema_string : str
        The schema of the rows, as JSON; a record.
    url : str
        Where the registry is; several with commas.
    registry_configs : mapping, optional
        ``basic.auth.user.info`` is user:password, ``bearer.auth.token`` a token; ``ssl.ca.location``,
        ``ssl.certificate.location`` and ``ssl.key.location`` are files.

    Raises
    ------
    TypeError, ValueError
        The schema, the URL or a property is none.

    References
    ----------
    Flink ``ConfluentRegistryAvroDeserializationSchema.forGeneric``.

    Examples
    --------
    >>> schema = '{"type": "record", "name": "Pair", "fields": [{"name": "id", "type": "int"}]}'
    >>> rows = ConfluentRegistryAvroRowDeserializationSchema(schema, "http://localhost:8081")  # doctest: +SKIP
    """

    def __init__(self, avro_schema_string: str, url: str, registry_configs: Mapping[str, str] | None = None) -> None:
        super().__init__(avro_schema_string=avro_schema_string)
        self._arguments = (avro_schema_string, url, dict(registry_configs or {}))
        self._registry = SchemaRegistry(url, registry_configs or {})
        self._writers: dict[int, object] = {}  # their schemas, as fastavro has them, by number

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Raises
        ------
        CorruptDataError
            It does not begin with the number of a schema, or its bytes are not of that, or cannot be read as the given.
        FlinkbufError
            The registry does not answer, or does not know the number.
        """
        number = number_of(message)
        writer = self._writers.get(number) or self._fetch(number)
        stream = io.BytesIO(message)
        stream.seek(_HEADER_BYTES)
        try:
            value = fastavro_library().schemaless_reader(stream, writer, self._schema)
        except Exception as error:  # whatever fastavro stumbles over: it has no class of its own for it
            raise CorruptDataError(
                f"{message!r} is no record of schema {number}, or cannot be read as {self._schema['name']!r}: {error!r}"
            ) from error
        if stream.tell() != len(message):
            raise CorruptDataError(f"{message!r} has {len(message) - stream.tell()} bytes behind the record")
        return value if self._convert is None else self._convert(value)

    def _fetch(self, number: int) -> object:
        registered = self._registry.schema_of(number)
        if registered.kind != "AVRO":
            raise CorruptDataError(f"schema {number} of the registry is one of {registered.kind}, not of Avro")
        named: dict[str, Any] = {}
        self._writers[number] = self._parse(registered, named)
        return self._writers[number]

    def _parse(self, registered: RegisteredSchema, named: dict[str, Any]) -> object:
        for subject, version in registered.references:
            self._parse(self._registry.version_of(subject, version), named)
        try:
            return fastavro_library().parse_schema(json.loads(registered.text), named_schemas=named)
        except Exception as error:  # SchemaParseException, UnknownType: not ValueErrors
            raise FlinkbufError(
                f"the registry has a schema that cannot be read: {error!r}: {registered.text}"
            ) from error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments


class ConfluentRegistryAvroRowSerializationSchema(AvroRowSerializationSchema):
    """Makes a message in Avro's binary format of a row, behind the number that a registry has given the schema.

    The schema is registered when the first row is written.

    Parameters
    ----------
    subject : str
        What it is a version of: ``<topic>-value`` for the values of a topic, unless it was agreed otherwise.
    avro_schema_string : str
        The schema of the messages, as JSON; a record, whose fields are the row's in their order.
    url : str
        Where the registry is; several with commas.
    registry_configs : mapping, optional
        As for `ConfluentRegistryAvroRowDeserializationSchema`.

    Raises
    ------
    TypeError, ValueError
        The schema, the URL or a property is none.

    References
    ----------
    Flink ``ConfluentRegistryAvroSerializationSchema.forGeneric``.

    Examples
    --------
    >>> schema = '{"type": "record", "name": "Pair", "fields": [{"name": "id", "type": "int"}]}'
    >>> url = "http://localhost:8081"
    >>> messages = ConfluentRegistryAvroRowSerializationSchema("pairs-value", schema, url)  # doctest: +SKIP
    """

    def __init__(
        self, subject: str, avro_schema_string: str, url: str, registry_configs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(avro_schema_string=avro_schema_string)
        if not isinstance(subject, str) or not subject:
            raise TypeError(f"subject must be what the schema is a version of, such as 'orders-value', got {subject!r}")
        self._arguments = (subject, avro_schema_string, url, dict(registry_configs or {}))
        self._registry = SchemaRegistry(url, registry_configs or {})
        self._number: int | None = None

    def serialize(self, element: object) -> bytes:
        """Return the message of a row.

        Raises
        ------
        ValueError
            A value is not of the schema; the message names the field.
        FlinkbufError
            The registry does not answer, or refuses the schema: it does not fit those before it.
        """
        message = super().serialize(element)
        if self._number is None:
            self._number = self._registry.register(self._arguments[0], self._arguments[1])
        return numbered(self._number, message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments
