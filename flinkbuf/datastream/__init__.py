"""Programs over streams: PyFlink's DataStream API. PyFlink: pyflink.datastream.

Begin with `StreamExecutionEnvironment`.
"""

from flinkbuf.lazy_names import bring

# Where each name lives; a name brings its module when it is first used, so that a program loads what it needs.
_NAMES = {
    "async_data_stream": "AsyncDataStream",
    "checkpoint_config": "CheckpointConfig",
    "checkpoint_storage": (
        "CheckpointStorage CustomCheckpointStorage FileSystemCheckpointStorage JobManagerCheckpointStorage"
    ),
    "checkpointing_mode": "CheckpointingMode",
    "data_stream": (
        "AllWindowedStream BroadcastConnectedStream BroadcastStream CachedDataStream CloseableIterator "
        "CoGroupedStreams ConnectedStreams DataStream DataStreamSink JoinedStreams KeyedStream WindowedStream"
    ),
    "execution_mode": "RuntimeExecutionMode",
    "externalized_checkpoint_retention": "ExternalizedCheckpointRetention",
    "functions": (
        "AggregateFunction AsyncFunction AsyncRetryPredicate AsyncRetryStrategy BroadcastProcessFunction "
        "CoFlatMapFunction CoGroupFunction CoMapFunction CoProcessFunction FilterFunction FlatJoinFunction "
        "FlatMapFunction JoinFunction KeySelector "
        "KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction MapBatchFunction MapFunction "
        "Partitioner ProcessFunction ProcessJoinFunction ProcessWindowFunction ReduceFunction RuntimeContext "
        "SinkFunction SourceFunction "
        "WindowFunction"
    ),
    "output_tag": "OutputTag",
    "slot_sharing_group": "MemorySize SlotSharingGroup",
    "state_backend": (
        "CustomStateBackend EmbeddedRocksDBStateBackend HashMapStateBackend PredefinedOptions StateBackend"
    ),
    "stream_execution_environment": "StreamExecutionEnvironment",
    "time_domain": "TimeDomain",
    "timerservice": "TimerService",
    "window": ("CountWindow GlobalWindow MergingWindowAssigner TimeWindow Trigger TriggerResult Window WindowAssigner"),
}
_MODULE_OF = {name: f"flinkbuf.datastream.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    """Bring a name at its first use (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """What is there, and what would come."""
    return sorted({*globals(), *__all__})
