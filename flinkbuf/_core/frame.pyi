from collections.abc import Sequence
from typing import Any

class Frame:
    body: bytes
    part_sizes: tuple[int, ...]
    def __init__(
        self,
        message: str,
        *,
        receiver: bytes | None = None,
        partition: bytes | None = None,
        body: bytes = b"",
        part_sizes: Sequence[int] = (),
        **numbers: int,
    ) -> None: ...
    @property
    def message(self) -> str: ...
    @property
    def receiver(self) -> bytes | None: ...
    @property
    def partition(self) -> bytes: ...
    @property
    def numbers(self) -> dict[str, int]: ...
    def encode(self) -> bytes: ...

class FrameDecoder:
    def __init__(
        self,
        sender: str | None = None,
        *,
        max_data_size: int = 0,
        max_event_size: int = 0,
        max_error_size: int = 0,
        max_part_count: int = 0,
    ) -> None: ...
    @property
    def offset(self) -> int: ...
    def feed(self, data: Any) -> list[Frame]: ...
    def close(self) -> None: ...
