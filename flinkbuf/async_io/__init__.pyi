"""The public names of flinkbuf.async_io, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf.async_io.function import CallContext, CompletedTwiceError, ResultFuture
from flinkbuf.async_io.retry import ExponentialRetry, FixedDelayRetry
from flinkbuf.async_io.stats import AsyncStats, SkippedRecord

__all__ = [
    "AsyncStats",
    "CallContext",
    "CompletedTwiceError",
    "ExponentialRetry",
    "FixedDelayRetry",
    "ResultFuture",
    "SkippedRecord",
]
