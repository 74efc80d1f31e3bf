"""The async operator and its parts, without Spark."""

from flinkbuf.lazy_names import bring

_NAMES = {
    "flinkbuf.async_io.function": "AsyncMapOptions CallContext CompletedTwiceError ResultFuture",
    "flinkbuf.async_io.retry": "ExponentialRetry FixedDelayRetry",
    "flinkbuf.async_io.stats": "AsyncStats SkippedRecord",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:  # __init__.pyi has the types
    """Bring a public name at its first use (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """Return what is there, and what would come."""
    return sorted({*globals(), *__all__})
