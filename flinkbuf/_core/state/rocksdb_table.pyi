from typing import Any

from flinkbuf._core.record.key_group import KeyGrouper
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.keyed_state import KeyedState
from flinkbuf._core.value.type_codec import TypeCodec

class CachedValue: ...

class RocksDbTable:
    def __init__(
        self,
        store: Any,
        state_id: int,
        state: KeyedState,
        keys: KeyContext,
        grouper: KeyGrouper,
        key_codec: TypeCodec | None,
        codec: TypeCodec | None,
        has_stamps: bool,
        capacity: int,
    ) -> None: ...
    def write_back(self) -> None: ...
    def prefix(self, group: int) -> bytes: ...

def use_rocksdb_table(state: KeyedState, table: RocksDbTable) -> None: ...
def after(prefix: bytes) -> bytes: ...
def places_in(
    data: Any, key_group: int, state_id: int, key_codec: TypeCodec | None, codec: TypeCodec | None, has_stamps: bool
) -> list[tuple[bytes, bytes]]: ...
def replaced(
    entries: list[tuple[bytes, bytes]], state_ids: dict[int, int], key_codec: TypeCodec | None
) -> list[tuple[bytes, bytes]]: ...
def restamped(
    place: bytes,
    data: bytes,
    state: KeyedState,
    key_codec: TypeCodec | None,
    codec: TypeCodec | None,
    had_stamps: bool,
) -> bytes: ...
def entry_in(
    place: bytes, data: bytes, namespace_before: bytes, key_codec: TypeCodec | None, has_stamps: bool
) -> tuple[bytes, bytes]: ...
