from typing import Any, ClassVar, SupportsIndex, overload

class NamedFields(tuple[Any, ...]):
    _names: ClassVar[tuple[str, ...] | None]
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Any: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, key: str, /) -> Any: ...
