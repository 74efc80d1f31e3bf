from collections.abc import Sequence
from typing import Any, ClassVar, SupportsIndex, overload

class NamedFields(tuple[Any, ...]):
    _names: ClassVar[tuple[str, ...] | None]
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Any: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, key: str, /) -> Any: ...

class TypeCodec:
    kind: str
    children: tuple[TypeCodec, ...]
    names: tuple[str, ...] | None
    symbols: tuple[Any, ...] | None
    classes: tuple[type, ...]
    numpy: bool
    field_path_name: str | None
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
    ) -> None: ...
    def serialize(self, value: Any) -> bytes: ...
    def deserialize(self, data: Any) -> Any: ...
    def skip(self, data: Any) -> int: ...
