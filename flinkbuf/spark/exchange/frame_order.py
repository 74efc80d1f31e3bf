"""Rows of a DataFrame in an order that is the same again, for exchanges whose choice goes by it.

Behind a shuffle, rows come in another order each time. Spark's own ``repartition(n)`` sorts them first for that, by a
hash; so do exchanges by turns and at random, unless the rows come straight from where they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

# Parts of a plan that give their rows in the order in which they get them, or read them.
_IN_ORDER = frozenset(
    ("Project", "Filter", "Generate", "Range", "LocalRelation", "OneRowRelation", "Union", "LogicalRelation")
)
_WITHOUT_HASH = ("map<", "variant", "collate", "geography", "geometry")  # or equal ones with unequal bytes


def in_certain_order(rows: DataFrame, is_client: bool) -> DataFrame:
    """Return the rows so that each partition has them in the same order whenever it is computed.

    A client of Spark Connect cannot look into a plan, and sorts always.
    """
    from pyspark.sql import functions

    if not is_client and _has_certain_order(rows._jdf.queryExecution().optimizedPlan()):
        return rows
    columns = []
    for field in rows.schema:
        column = functions.col(f"`{field.name}`")
        has_hash = not any(word in field.dataType.simpleString().lower() for word in _WITHOUT_HASH)
        columns.append(column if has_hash else column.cast("string"))
    # Two hashes, for rows that have the same by chance.
    return rows.sortWithinPartitions(functions.xxhash64(*columns), functions.hash(*columns))


def _has_certain_order(plan: JavaObject) -> bool:
    kind = plan.getClass().getSimpleName()
    if kind == "LogicalRDD":
        return str(plan.rdd().outputDeterministicLevel().toString()) == "DETERMINATE"
    children = plan.children()
    return kind in _IN_ORDER and all(_has_certain_order(children.apply(index)) for index in range(children.size()))
