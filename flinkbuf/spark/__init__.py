"""What runs inside Spark: the only folder that imports pyspark."""
