from collections.abc import Callable, Iterator
from typing import Any

from flinkbuf._core.record.key_group import KeyGrouper
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.keyed_state import KeyedState
from flinkbuf._core.state.state_table import FrozenTable
from flinkbuf._core.value.type_codec import TypeCodec

class GroupWriter:
    def __init__(self, grouper: KeyGrouper, key_codec: TypeCodec | None, is_cancelled: Callable[[], bool]) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    def put_timers(self, timers: Iterator[Any], limit: int) -> bool: ...
    def gather(self) -> tuple[bytes, list[tuple[int, int, int]]]: ...
    def clear(self) -> None: ...

class TableEncoder:
    def __init__(
        self, table: FrozenTable, state: KeyedState, codec: TypeCodec | None, has_stamps: bool, expire_at: int | None
    ) -> None: ...
    def write(self, writer: GroupWriter, limit: int) -> bool: ...

class StateReader:
    def __init__(self, view: Any) -> None: ...

def read_entries(
    data: Any,
    state: KeyedState,
    keys: KeyContext,
    key_codec: TypeCodec | None,
    codec: TypeCodec | None,
    has_stamps: bool,
) -> None: ...
def read_timers(data: Any, keys: KeyContext, key_codec: TypeCodec | None) -> list[tuple[int, Any, Any]]: ...
