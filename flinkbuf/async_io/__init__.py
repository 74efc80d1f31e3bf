"""The async operator and its parts, without Spark."""

from flinkbuf.lazy_names import lazy_names

_MODULE_OF, __all__, __getattr__, __dir__ = lazy_names(  # __init__.pyi has the types
    globals(),
    {
        "flinkbuf.async_io.function": "AsyncMapOptions CallContext CompletedTwiceError ResultFuture",
        "flinkbuf.async_io.retry": "ExponentialRetry FixedDelayRetry",
        "flinkbuf.async_io.stats": "AsyncStats SkippedRecord",
    },
)
