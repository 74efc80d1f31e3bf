from types import FrameType

def innermost_frame(
    thread: int, own: tuple[str, ...], libraries: tuple[str, ...], connectors: tuple[str, ...] = ()
) -> FrameType | None: ...
def raise_in_function(
    thread: int,
    error_class: type[BaseException],
    own: tuple[str, ...],
    libraries: tuple[str, ...],
    connectors: tuple[str, ...] = (),
) -> bool: ...
