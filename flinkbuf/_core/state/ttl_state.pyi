from collections.abc import Callable
from typing import Any

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.keyed_state import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedState,
    KeyedValueState,
)

class TimeToLive:
    def __init__(
        self,
        clock: Any,
        ttl_ms: int,
        *,
        is_read_an_update: bool = False,
        returns_expired: bool = False,
        cleanup_size: int = 0,
        cleans_with_every_record: bool = False,
    ) -> None: ...
    @property
    def ttl_ms(self) -> int: ...
    @property
    def is_read_an_update(self) -> bool: ...
    @property
    def returns_expired(self) -> bool: ...
    @property
    def cleanup_size(self) -> int: ...
    @property
    def cleans_with_every_record(self) -> bool: ...

def sweeper(state: KeyedState, life: TimeToLive) -> Callable[[], Any]: ...

class TtlValueState(KeyedValueState):
    def __init__(self, name: str, key_context: KeyContext, life: TimeToLive) -> None: ...
    def without_expired(self, stored: Any, now: int) -> Any: ...

class TtlReducingState(KeyedReducingState):
    def __init__(
        self, name: str, key_context: KeyContext, life: TimeToLive, reduce: Callable[[Any, Any], Any]
    ) -> None: ...
    def without_expired(self, stored: Any, now: int) -> Any: ...

class TtlAggregatingState(KeyedAggregatingState):
    def __init__(self, name: str, key_context: KeyContext, life: TimeToLive, function: Any) -> None: ...
    def without_expired(self, stored: Any, now: int) -> Any: ...

class TtlListState(KeyedListState):
    def __init__(self, name: str, key_context: KeyContext, life: TimeToLive) -> None: ...
    def without_expired(self, stored: Any, now: int) -> Any: ...

class TtlMapState(KeyedMapState):
    def __init__(self, name: str, key_context: KeyContext, life: TimeToLive) -> None: ...
    def without_expired(self, stored: Any, now: int) -> Any: ...
