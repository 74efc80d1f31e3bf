"""What runs inside Spark: the only folder that imports pyspark."""

from flinkbuf.lazy_names import lazy_names

_MODULE_OF, __all__, __getattr__, __dir__ = lazy_names(  # __init__.pyi has the types
    globals(),
    {
        "flinkbuf.spark.exchange.pipelined": "exchange_summaries",
        "flinkbuf.spark.exchange.summary": "ExchangeSummary",
    },
)
