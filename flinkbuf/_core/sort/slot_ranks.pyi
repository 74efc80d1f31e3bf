from collections.abc import Sequence
from typing import Any

import numpy as np

class SlotRanks:
    def __init__(
        self,
        limit: int,
        words: int,
        texts: Sequence[int] = (),
        descending: Sequence[int] = (),
        is_newest_first: bool = False,
    ) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def add(
        self, slots: np.ndarray[Any, Any], slot_count: int, orders: np.ndarray[Any, Any], base: int
    ) -> tuple[np.ndarray[Any, Any], int]: ...
    def changes(
        self, by_rank: bool
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]: ...
    def counts(self, slots: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]: ...
    def numbers(self, slots: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]: ...
