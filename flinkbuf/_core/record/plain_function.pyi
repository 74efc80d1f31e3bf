from collections.abc import Callable
from typing import Any

def quickened(function: Callable[..., Any], argument_count: int = 1) -> Callable[..., Any]: ...
