from collections.abc import Iterable
from typing import Any

from flinkbuf._core.buffer import Buffer
from flinkbuf._core.local_buffer_pool import LocalBufferPool
from flinkbuf._core.partition_client import PartitionClient
from flinkbuf._core.partition_manager import PartitionManager
from flinkbuf._core.result_partition import ResultPartition

class AbstractInputGate:
    def poll(self, timeout_ms: int | None = 0) -> tuple[int, Buffer] | None: ...
    def resume_consumption(self, channel_index: int) -> None: ...
    def acknowledge_all_records_processed(self, channel_index: int) -> None: ...
    def close(self) -> None: ...
    @property
    def channel_count(self) -> int: ...

class InputGate(AbstractInputGate):
    decompressor: Any
    def __init__(
        self,
        channels: Iterable[tuple[ResultPartition, int]] = (),
        *,
        channel_count: int | None = None,
        decompressor: Any = None,
    ) -> None: ...
    def set_network(
        self, client: PartitionClient, manager: PartitionManager, pool: LocalBufferPool | None, patience_ms: int
    ) -> None: ...
    def set_local(self, index: int, partition_id: bytes, subpartition_index: int) -> None: ...
    def set_remote(
        self,
        index: int,
        host: str,
        port: int,
        partition_id: bytes,
        subpartition_index: int,
        *,
        exclusive_buffers: int = 2,
        timeout_ms: int = 30000,
        connection_index: int = 0,
        channel_id: bytes | None = None,
    ) -> None: ...
    def set_debloating(
        self,
        *,
        period_ms: int,
        target_ms: int,
        min_size: int,
        max_size: int,
        threshold_percentages: int,
        samples: int,
    ) -> None: ...
    def request_partitions(self) -> None: ...
    def resume_consumption(self, channel_index: int) -> None: ...
    def acknowledge_all_records_processed(self, channel_index: int) -> None: ...
    def figures(self) -> dict[str, Any]: ...
    @property
    def channel_count(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_finished(self) -> bool: ...
    @property
    def has_received_end_of_data(self) -> bool: ...
    @property
    def is_drained(self) -> bool: ...
    @property
    def announced_buffer_size(self) -> int | None: ...
    @property
    def queued_channel_count(self) -> int: ...
