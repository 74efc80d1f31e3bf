from types import TracebackType

from flinkbuf._core.partition_manager import PartitionManager
from flinkbuf._core.reactor import Reactor

class PartitionServer:
    host: str
    port: int
    def __new__(
        cls, reactor: Reactor, manager: PartitionManager, host: str, port: int = 0, *, request_timeout_ms: int = 10000
    ) -> PartitionServer: ...
    def __enter__(self) -> PartitionServer: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...
    def counters(self) -> dict[str, int]: ...
