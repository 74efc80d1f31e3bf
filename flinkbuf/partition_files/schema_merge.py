"""Two schemas, as Spark writes them in JSON, made one where rows of both can stand side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged_schema(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, Any]:
    """The schema of rows of both: the same columns, each nullable if it is in one of them.

    Raises
    ------
    ValueError
        If they have other columns, in another order, or of other types; the message names the first one.

    Examples
    --------
    >>> old = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": False}]}
    >>> new = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True}]}
    >>> merged_schema(old, new)["fields"][0]["nullable"]
    True
    """
    merged = _merged(old, new, "")
    assert isinstance(merged, Mapping)
    return dict(merged)


def _merged(old: object, new: object, where: str) -> object:
    place = f"column {where!r}" if where else "the row"
    differ = f"{place} is {_type_name(old)} in the data set and {_type_name(new)} in the new rows"
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or old.get("type") != new.get("type"):
        if old == new:
            return old
        raise ValueError(differ)
    if old["type"] == "struct":
        return {**old, "fields": _merged_fields(old["fields"], new["fields"], where)}
    if old["type"] == "array":
        element = _merged(old["elementType"], new["elementType"], f"{where}[]")
        return {**old, "elementType": element, "containsNull": bool(old["containsNull"] or new["containsNull"])}
    if old["type"] == "map":
        return {
            **old,
            "keyType": _merged(old["keyType"], new["keyType"], f"{where}.key"),
            "valueType": _merged(old["valueType"], new["valueType"], f"{where}.value"),
            "valueContainsNull": bool(old["valueContainsNull"] or new["valueContainsNull"]),
        }
    if {**old, "metadata": None} != {**new, "metadata": None}:
        raise ValueError(differ)
    return old


def _merged_fields(old: list[dict[str, Any]], new: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    old_names, new_names = ([each["name"] for each in side] for side in (old, new))
    if old_names != new_names:
        place = f" of column {where!r}" if where else ""
        order = (
            ", in another order: select them in that of the data set" if sorted(old_names) == sorted(new_names) else ""
        )
        raise ValueError(f"the columns{place} are {old_names} in the data set and {new_names} in the new rows{order}")
    fields = []
    for left, right in zip(old, new, strict=True):
        path = f"{where}.{left['name']}" if where else left["name"]
        nullable = bool(left.get("nullable", True) or right.get("nullable", True))
        fields.append({**left, "type": _merged(left["type"], right["type"], path), "nullable": nullable})
    return fields


def _type_name(found: object) -> str:
    return str(found.get("type")) if isinstance(found, Mapping) else str(found)
