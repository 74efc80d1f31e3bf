"""`register_data_source`: make ``format("flinkbuf")`` known to a session by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_data_source(spark: SparkSession) -> None:
    """Make ``format("flinkbuf")`` known to a Spark session, where PySpark does not find it by itself.

    PySpark looks for modules named ``pyspark_…`` on the Python path of the driver, once in a session; flinkbuf installs
    ``pyspark_flinkbuf``. This is for sessions that began before, and for a driver without it, as of Spark Connect.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.

    Examples
    --------
    >>> register_data_source(spark)  # doctest: +SKIP
    >>> spark.read.format("flinkbuf").load("/data/flights").count()  # doctest: +SKIP
    336776
    """
    from flinkbuf.spark.data_source.data_source import FlinkbufDataSource

    spark.dataSource.register(FlinkbufDataSource)
