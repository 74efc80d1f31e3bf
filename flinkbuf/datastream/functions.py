"""What a user's function derives from. PyFlink: datastream/functions.py."""

from flinkbuf.streaming.chain.async_functions import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from flinkbuf.streaming.chain.checkpointed_function import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinkbuf.streaming.chain.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    Function,
    JoinFunction,
    KeySelector,
    MapBatchFunction,
    MapFunction,
    NullByteKeySelector,
    ParallelSourceFunction,
    Partitioner,
    ReduceFunction,
    SinkFunction,
    SourceFunction,
)
from flinkbuf.streaming.chain.process_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
)
from flinkbuf.streaming.chain.runtime_context import RuntimeContext
from flinkbuf.streaming.sinks.two_phase_commit import TwoPhaseCommitSinkFunction
from flinkbuf.streaming.state.state import KeyedStateStore
from flinkbuf.streaming.state.timers import TimerService
from flinkbuf.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapBatchFunction",
    "MapFunction",
    "NullByteKeySelector",
    "ParallelSourceFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimerService",
    "TwoPhaseCommitSinkFunction",
    "WindowFunction",
]
