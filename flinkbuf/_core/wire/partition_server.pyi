from types import TracebackType

from flinkbuf._core.io.dialer import Carrier
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_manager import PartitionManager

class PartitionServer:
    host: str | None
    port: int
    def __new__(
        cls,
        reactor: Reactor,
        manager: PartitionManager,
        host: str | None,
        port: int = 0,
        *,
        request_timeout_ms: int = 10000,
        secret: bytes | None = None,
        proof_timeout_ms: int = 10000,
        max_unproven: int = 0,
        max_connections: int = 0,
        max_waiting: int = 0,
    ) -> PartitionServer: ...
    def __enter__(self) -> PartitionServer: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def adopt(self, fd: int, host: str, port: int, carrier: Carrier) -> None: ...
    def note_refusal(self, reason: str) -> None: ...
    @property
    def last_refusal(self) -> str | None: ...
