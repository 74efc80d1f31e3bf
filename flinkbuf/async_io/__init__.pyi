"""The public names of flinkbuf.async_io, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf.async_io.function import AsyncMapOptions, CallContext, CompletedTwiceError, ResultFuture
from flinkbuf.async_io.retry import ExponentialRetry, FixedDelayRetry
from flinkbuf.async_io.stats import AsyncStats, SkippedRecord

__all__ = [
    "AsyncMapOptions",
    "AsyncStats",
    "CallContext",
    "CompletedTwiceError",
    "ExponentialRetry",
    "FixedDelayRetry",
    "ResultFuture",
    "SkippedRecord",
]
