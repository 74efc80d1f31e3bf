"""Spark's JSON of a schema as its DDL, which `flinkbuf.as_type` reads: a data set is understood without Spark."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def ddl_of(schema: Mapping[str, object]) -> str:
    """The columns, as ``name type, …``.

    Parameters
    ----------
    schema : mapping
        A struct, as ``StructType.jsonValue()`` gives it.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> array = {"type": "array", "elementType": "long", "containsNull": True}
    >>> ddl_of({"type": "struct", "fields": [{"name": "my id", "type": "integer"}, {"name": "all", "type": array}]})
    '`my id` int, `all` array<bigint>'
    """
    return ", ".join(f"{name} {text}" for name, text in columns_of(schema))


def columns_of(schema: object) -> list[tuple[str, str]]:
    """Quoted names and types of the columns."""
    try:
        if not isinstance(schema, Mapping):
            raise TypeError("no object of JSON")
        return [("`" + each["name"].replace("`", "``") + "`", _type_text(each["type"])) for each in schema["fields"]]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the schema is no struct of Spark's") from None


def _type_text(found: object) -> str:
    if isinstance(found, str):
        return _NAMES.get(found, found.partition(" collate ")[0])
    if not isinstance(found, Mapping):
        raise TypeError("no type of Spark's")
    kind = found["type"]
    if kind == "array":
        return f"array<{_type_text(found['elementType'])}>"
    if kind == "map":
        return f"map<{_type_text(found['keyType'])}, {_type_text(found['valueType'])}>"
    if kind == "struct":
        return f"struct<{', '.join(f'{name}: {text}' for name, text in columns_of(found))}>"
    return _type_text(found["sqlType"])  # of a user-defined type: what it is stored as
