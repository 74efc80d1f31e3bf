"""What sources and sinks derive from; PyFlink's pyflink.datastream.connectors.base in Python's own classes.

In PyFlink a `Source` or `Sink` wraps a Java object. Here it is a Python class: a source has splits, an enumerator and
readers (Flink's FLIP-27), a sink has writers and, if it likes, committers (FLIP-143).
"""

from __future__ import annotations

from enum import Enum

from flinkbuf.streaming.sinks.sink import (
    CommitRequest,
    Committer,
    CommitterContext,
    GlobalCommitter,
    Sink,
    SinkContext,
    SinkWriter,
    StreamTransformer,
    SupportsPreprocessing,
    WriterContext,
)
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.split_reader import QueueEnumerator, SplitReader

__all__ = [
    "Boundedness",
    "CommitRequest",
    "Committer",
    "CommitterContext",
    "DeliveryGuarantee",
    "EnumeratorContext",
    "GlobalCommitter",
    "InputStatus",
    "QueueEnumerator",
    "ReaderContext",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "SourceReader",
    "SplitEnumerator",
    "SplitReader",
    "StreamTransformer",
    "SupportsPreprocessing",
    "WriterContext",
]


class DeliveryGuarantee(Enum):
    """How often a record may come out of a sink if something fails. Flink: DeliveryGuarantee.

    Attributes
    ----------
    EXACTLY_ONCE
        Once, whatever happens.
    AT_LEAST_ONCE
        Once, or several times after a failure.
    NONE
        It may be lost, or come several times.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
