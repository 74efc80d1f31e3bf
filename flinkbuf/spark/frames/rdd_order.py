"""What Spark is told about the order of records, so that it runs again all that it has to when files are lost.

Spark runs a task of a shuffle again when what it wrote is lost, and takes the second output for the same as the first
unless an RDD says otherwise. UNORDERED: the same records in another order, as behind every shuffle. INDETERMINATE:
other records. Then Spark runs again what has read the first output, or fails the job where that cannot be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from flinkbuf.log import logger

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import RDD

T = TypeVar("T")


def declare_order(
    made: RDD[T], *, is_order_sensitive: bool = False, is_unordered: bool = False, is_indeterminate: bool = False
) -> RDD[T]:
    """Tell Spark what it cannot see of the tasks of an RDD, and return that RDD.

    Parameters
    ----------
    made : RDD
        What ``mapPartitions`` has just returned, of which nothing was made yet.
    is_order_sensitive : bool
        Which records a task gives to whom depends on the order of those that it reads, as in ``repartition``.
    is_unordered : bool
        It gives its records in any order, whatever the order of those that it reads.
    is_indeterminate : bool
        Nothing is known of what it gives when it runs again.
    """
    if not (is_order_sensitive or is_unordered or is_indeterminate):
        return made
    read: JavaObject = made._prev_jrdd  # type: ignore[attr-defined]
    # All records of a sample of 1.0 pass, and Spark knows that which ones a sample has depends on their order. It
    # stands before the code in Python, where one step more in the JVM costs a call for each batch of records.
    sampled = read.sample(False, 1.0, 0)
    made._prev_jrdd = sampled  # type: ignore[attr-defined]
    level = _level_of(sampled) if is_order_sensitive else _level_of(read)
    if is_indeterminate:
        level = "INDETERMINATE"
    elif is_unordered and level == "DETERMINATE":
        level = "UNORDERED"
    if level != _level_of(sampled):
        _set_level(made.context._jvm, sampled, level)
    return made


def has_fixed_order(data: RDD[object]) -> bool:
    """Whether Spark says that each partition has the same records in the same order whenever it is computed.

    It knows of shuffles and samples, and nothing of what Python functions do.
    """
    java_rdd = getattr(data, "_prev_jrdd", None)  # of an RDD that is functions over another one
    return _level_of(data._jrdd if java_rdd is None else java_rdd) == "DETERMINATE"


def _level_of(java_rdd: JavaObject) -> str:
    return str(java_rdd.rdd().outputDeterministicLevel().toString())


def _set_level(jvm: JVMView, java_rdd: JavaObject, level: str) -> None:
    """Set what an RDD says of itself. Spark asks once and keeps the answer in a field; no public method sets it."""
    rdd = java_rdd.rdd()
    try:
        base: JavaObject = jvm.java.lang.Class.forName("org.apache.spark.rdd.RDD")
        for field in base.getDeclaredFields():
            name = str(field.getName())
            if name.lstrip("_") == "outputDeterministicLevel":
                field.setAccessible(True)
                field.set(rdd, getattr(jvm.org.apache.spark.rdd.DeterministicLevel, level)())
            elif name == "bitmap$0":  # whether Spark has asked
                field.setAccessible(True)
                field.setBoolean(rdd, True)
    except Exception as error:
        logger.debug("the order of an RDD's records: %s", error)
    if _level_of(java_rdd) != level:
        logger.warning(
            "this version of Spark cannot be told that the records are %s; if it loses an executor, records "
            "that a later repartition() moves by their order may be lost or doubled",
            level,
        )
