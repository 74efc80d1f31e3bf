from collections.abc import Callable, Sequence
from typing import Any

from flinkbuf._core.value.codec import Codec

class TypeCodec(Codec):
    def __init__(
        self,
        kind: str,
        children: tuple[TypeCodec, ...] = (),
        *,
        names: Sequence[str] | None = None,
        symbols: Sequence[Any] | None = None,
        padding: int = 0,
        classes: Sequence[type] | None = None,
        numpy: bool = False,
        field_path_name: str | None = None,
        trusted: bool = True,
        is_key: bool = False,
        row_classes: Callable[[tuple[str, ...] | None], Sequence[type]] | None = None,
        precision: int = 0,
        scale: int = 0,
        required: Sequence[bool] | None = None,
        own_class: bool = False,
    ) -> None: ...
    def serialize(self, value: Any) -> bytes: ...
    def deserialize(self, data: Any) -> Any: ...
    def skip(self, data: Any) -> int: ...
