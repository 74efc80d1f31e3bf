from typing import Any

class Codec:
    kind: str
    children: tuple[Codec, ...]
    names: tuple[str, ...] | None
    symbols: tuple[Any, ...] | None
    classes: tuple[type, ...]
    numpy: bool
    field_path_name: str | None
    trusted: bool
