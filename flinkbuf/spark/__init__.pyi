"""The public names of flinkbuf.spark, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf.spark.exchange.pipelined import exchange_summaries
from flinkbuf.spark.exchange.summary import ExchangeSummary

__all__ = [
    "ExchangeSummary",
    "exchange_summaries",
]
