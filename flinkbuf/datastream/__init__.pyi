"""What `__init__.py` gives lazily, for type checkers."""

from flinkbuf.datastream.async_data_stream import AsyncDataStream as AsyncDataStream
from flinkbuf.datastream.checkpoint_config import CheckpointConfig as CheckpointConfig
from flinkbuf.datastream.checkpoint_storage import CheckpointStorage as CheckpointStorage
from flinkbuf.datastream.checkpoint_storage import CustomCheckpointStorage as CustomCheckpointStorage
from flinkbuf.datastream.checkpoint_storage import FileSystemCheckpointStorage as FileSystemCheckpointStorage
from flinkbuf.datastream.checkpoint_storage import JobManagerCheckpointStorage as JobManagerCheckpointStorage
from flinkbuf.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode
from flinkbuf.datastream.data_stream import AllWindowedStream as AllWindowedStream
from flinkbuf.datastream.data_stream import BroadcastConnectedStream as BroadcastConnectedStream
from flinkbuf.datastream.data_stream import BroadcastStream as BroadcastStream
from flinkbuf.datastream.data_stream import CachedDataStream as CachedDataStream
from flinkbuf.datastream.data_stream import CloseableIterator as CloseableIterator
from flinkbuf.datastream.data_stream import CoGroupedStreams as CoGroupedStreams
from flinkbuf.datastream.data_stream import ConnectedStreams as ConnectedStreams
from flinkbuf.datastream.data_stream import DataStream as DataStream
from flinkbuf.datastream.data_stream import DataStreamSink as DataStreamSink
from flinkbuf.datastream.data_stream import JoinedStreams as JoinedStreams
from flinkbuf.datastream.data_stream import KeyedStream as KeyedStream
from flinkbuf.datastream.data_stream import WindowedStream as WindowedStream
from flinkbuf.datastream.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode
from flinkbuf.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
)
from flinkbuf.datastream.functions import AggregateFunction as AggregateFunction
from flinkbuf.datastream.functions import AsyncFunction as AsyncFunction
from flinkbuf.datastream.functions import AsyncRetryPredicate as AsyncRetryPredicate
from flinkbuf.datastream.functions import AsyncRetryStrategy as AsyncRetryStrategy
from flinkbuf.datastream.functions import BroadcastProcessFunction as BroadcastProcessFunction
from flinkbuf.datastream.functions import CoFlatMapFunction as CoFlatMapFunction
from flinkbuf.datastream.functions import CoGroupFunction as CoGroupFunction
from flinkbuf.datastream.functions import CoMapFunction as CoMapFunction
from flinkbuf.datastream.functions import CoProcessFunction as CoProcessFunction
from flinkbuf.datastream.functions import FilterFunction as FilterFunction
from flinkbuf.datastream.functions import FlatJoinFunction as FlatJoinFunction
from flinkbuf.datastream.functions import FlatMapFunction as FlatMapFunction
from flinkbuf.datastream.functions import JoinFunction as JoinFunction
from flinkbuf.datastream.functions import KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction
from flinkbuf.datastream.functions import KeyedCoProcessFunction as KeyedCoProcessFunction
from flinkbuf.datastream.functions import KeyedProcessFunction as KeyedProcessFunction
from flinkbuf.datastream.functions import KeySelector as KeySelector
from flinkbuf.datastream.functions import MapBatchFunction as MapBatchFunction
from flinkbuf.datastream.functions import MapFunction as MapFunction
from flinkbuf.datastream.functions import Partitioner as Partitioner
from flinkbuf.datastream.functions import ProcessFunction as ProcessFunction
from flinkbuf.datastream.functions import ProcessJoinFunction as ProcessJoinFunction
from flinkbuf.datastream.functions import ProcessWindowFunction as ProcessWindowFunction
from flinkbuf.datastream.functions import ReduceFunction as ReduceFunction
from flinkbuf.datastream.functions import RuntimeContext as RuntimeContext
from flinkbuf.datastream.functions import SinkFunction as SinkFunction
from flinkbuf.datastream.functions import SourceFunction as SourceFunction
from flinkbuf.datastream.functions import WindowFunction as WindowFunction
from flinkbuf.datastream.output_tag import OutputTag as OutputTag
from flinkbuf.datastream.slot_sharing_group import MemorySize as MemorySize
from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup as SlotSharingGroup
from flinkbuf.datastream.state_backend import CustomStateBackend as CustomStateBackend
from flinkbuf.datastream.state_backend import EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend
from flinkbuf.datastream.state_backend import HashMapStateBackend as HashMapStateBackend
from flinkbuf.datastream.state_backend import PredefinedOptions as PredefinedOptions
from flinkbuf.datastream.state_backend import StateBackend as StateBackend
from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from flinkbuf.datastream.time_domain import TimeDomain as TimeDomain
from flinkbuf.datastream.timerservice import TimerService as TimerService
from flinkbuf.datastream.window import CountWindow as CountWindow
from flinkbuf.datastream.window import GlobalWindow as GlobalWindow
from flinkbuf.datastream.window import MergingWindowAssigner as MergingWindowAssigner
from flinkbuf.datastream.window import TimeWindow as TimeWindow
from flinkbuf.datastream.window import Trigger as Trigger
from flinkbuf.datastream.window import TriggerResult as TriggerResult
from flinkbuf.datastream.window import Window as Window
from flinkbuf.datastream.window import WindowAssigner as WindowAssigner

__all__: list[str]
