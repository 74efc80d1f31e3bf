from flinkbuf._core.io.dialer import Dialer
from flinkbuf._core.io.reactor import Reactor

class PartitionClient:
    def __new__(
        cls,
        reactor: Reactor,
        segment_size: int,
        *,
        connect_timeout_ms: int = 120000,
        connect_retries: int = 0,
        backoff_initial_ms: int = 100,
        backoff_max_ms: int = 10000,
        request_timeout_ms: int = 10000,
        keeps_connections: bool = True,
        secret: bytes | None = None,
        proof_timeout_ms: int = 10000,
        dialer: Dialer | None = None,
    ) -> PartitionClient: ...
    def close(self) -> None: ...
    def counters(self) -> dict[str, int]: ...
