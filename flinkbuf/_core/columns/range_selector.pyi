from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flinkbuf._core.columns.arrow_column import ArrowBatch
from flinkbuf._core.record.channel_selector import ChannelSelector, KeyField
from flinkbuf._core.value.type_codec import TypeCodec

class RangeField(KeyField):
    def __init__(
        self,
        codec: TypeCodec,
        index: int = -1,
        name: str | None = None,
        function: Callable[[Any], Any] | None = None,
        is_positional: bool = False,
        *,
        is_descending: bool = False,
        has_nulls_first: bool = True,
    ) -> None: ...

class RangeSelector(ChannelSelector):
    def __init__(self, fields: Iterable[RangeField], channel_count: int, bounds: Sequence[bytes]) -> None: ...
    @property
    def fields(self) -> tuple[RangeField, ...]: ...
    def key_of(self, record: object) -> bytes: ...

class BatchRanges:
    def __init__(self, selector: RangeSelector) -> None: ...
    def keys_of(self, codec: TypeCodec, batch: ArrowBatch, rows: Iterable[int]) -> list[bytes]: ...
