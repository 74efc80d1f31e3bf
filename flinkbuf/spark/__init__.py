"""What runs inside Spark: the only folder that imports pyspark."""

from flinkbuf.lazy_names import bring

_NAMES = {
    "flinkbuf.spark.exchange.pipelined": "exchange_summaries",
    "flinkbuf.spark.exchange.summary": "ExchangeSummary",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:  # __init__.pyi has the types
    """Bring a public name at its first use (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """Return what is there, and what would come."""
    return sorted({*globals(), *__all__})
