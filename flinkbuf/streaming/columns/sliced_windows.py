"""Windows of time as unions of slices: a row is added to one slice, a window is what its slices hold together.

The slice is the greatest length of which size and slide are multiples, so a window begins and ends with a slice. Only
numbers here, no columns. Flink's table runtime: SliceAssigners, with its CumulativeSliceAssigner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class SlicedWindows:
    """Windows of one size, one of which begins at every `slide_ms`, shifted by an offset.

    Examples
    --------
    >>> windows = SlicedWindows(10, 4)
    >>> windows.slice_ms, list(windows.ends_with(2)), windows.slices_of(14)
    (2, [6, 10], range(4, 14, 2))
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    @cached_property
    def slice_ms(self) -> int:
        """Return the length of a slice."""
        return gcd(self.size_ms, self.slide_ms)

    def starts_of(self, timestamps: np.ndarray) -> np.ndarray:
        """Return where the slice of each timestamp begins.

        Raises
        ------
        OverflowError
            If one is so near the ends of time that windows begin or end beyond them.
        """
        import numpy as np

        if not len(timestamps):
            return timestamps
        furthest = 2**63 - 1 - self.size_ms - self.slide_ms - abs(self.offset_ms)
        bounds = int(timestamps.min()), int(timestamps.max())
        for each in bounds:
            if not -furthest <= each <= furthest:
                raise OverflowError(f"the window of a row with timestamp {each} does not fit into 64 bits")
        first, last = (each - (each - self.offset_ms) % self.slice_ms for each in bounds)
        if first == last:  # as for most batches, which need no division for each row
            return np.full(len(timestamps), first)
        starts: np.ndarray = timestamps - (timestamps - self.offset_ms) % self.slice_ms
        return starts

    def ends_with(self, start: int) -> range:
        """Return the ends of the windows that hold the slice which begins at `start`; none if it lies in a gap."""
        last = start - (start - self.offset_ms) % self.slide_ms  # where the last of them begins
        first = last - (last + self.size_ms - start - self.slice_ms) // self.slide_ms * self.slide_ms
        return range(first + self.size_ms, last + self.size_ms + 1, self.slide_ms)

    def last_ends_of(self, timestamps: np.ndarray) -> np.ndarray:
        """Return where the last window of each timestamp ends: not after it, if it lies in a gap."""
        ends: np.ndarray = timestamps - (timestamps - self.offset_ms) % self.slide_ms + self.size_ms
        return ends

    def start_of(self, end: int) -> int:
        """Return where the window begins that ends at `end`."""
        return end - self.size_ms

    def slices_of(self, end: int) -> range:
        """Return where the slices of the window begin that ends at `end`."""
        return range(self.start_of(end), end, self.slice_ms)


class CumulatingWindows(SlicedWindows):
    """Windows one of which ends at every `slide_ms` and begins at the last multiple of `size_ms`, shifted by an offset.

    Examples
    --------
    >>> windows = CumulatingWindows(12, 4)
    >>> list(windows.ends_with(16)), windows.start_of(20), windows.slices_of(20)
    ([20, 24], 12, range(12, 20, 4))
    """

    def ends_with(self, start: int) -> range:
        """Return the ends of the windows that hold the slice which begins at `start`."""
        whole = start - (start - self.offset_ms) % self.size_ms
        return range(start + self.slide_ms, whole + self.size_ms + 1, self.slide_ms)

    def last_ends_of(self, timestamps: np.ndarray) -> np.ndarray:
        """Return where the last window of each timestamp ends."""
        ends: np.ndarray = timestamps - (timestamps - self.offset_ms) % self.size_ms + self.size_ms
        return ends

    def start_of(self, end: int) -> int:
        """Return where the window begins that ends at `end`."""
        return end - 1 - (end - 1 - self.offset_ms) % self.size_ms
