"""How PySpark finds the data source ``flinkbuf`` by itself: it looks for modules of this kind of name."""

from flinkbuf.spark.data_source.data_source import FlinkbufDataSource as DefaultSource

__all__ = ["DefaultSource"]
