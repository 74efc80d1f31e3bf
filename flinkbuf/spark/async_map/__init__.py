"""`async_map`: the async operator in Spark's tasks, on an RDD or a DataFrame."""
