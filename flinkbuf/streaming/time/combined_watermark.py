"""Event time of an operator with several inputs, or of one that reads several splits.

Flink: CombinedWatermarkStatus. Decides only: who asks it emits.
"""

from __future__ import annotations

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP


class CombinedWatermark:
    """The lowest watermark of the inputs that are not idle; of all idle ones the highest. It never falls.

    Parameters
    ----------
    input_count : int
        Inputs are numbered from 0. All begin active and without a watermark.

    References
    ----------
    Flink ``CombinedWatermarkStatus``. An input that is idle and nevertheless sends a watermark stays idle here.

    Examples
    --------
    >>> combined = CombinedWatermark(2)
    >>> combined.update_watermark(0, 7), combined.update_watermark(1, 4), combined.watermark
    (False, True, 4)
    >>> combined.update_status(1, True), combined.watermark, combined.is_idle
    (True, 7, False)
    """

    def __init__(self, input_count: int):
        if input_count < 1:
            raise ValueError(f"watermarks of at least one input can be combined, got {input_count}")
        self.watermark = NO_TIMESTAMP
        self.is_idle = False
        self._watermarks = [NO_TIMESTAMP] * input_count
        self._is_idle = [False] * input_count

    def update_watermark(self, index: int, timestamp: int) -> bool:
        """Take a watermark of one input; return whether `watermark` is higher now."""
        if timestamp <= self._watermarks[index]:
            return False
        self._watermarks[index] = timestamp
        return self._has_advanced()

    def update_status(self, index: int, is_idle: bool) -> bool:
        """Take the status of one input; return whether `watermark` is higher now."""
        if is_idle == self._is_idle[index]:
            return False
        self._is_idle[index] = is_idle
        self.is_idle = all(self._is_idle)
        return self._has_advanced()

    def _has_advanced(self) -> bool:
        if self.is_idle:
            watermark = max(self._watermarks)
        else:
            watermark = min(
                watermark for watermark, idle in zip(self._watermarks, self._is_idle, strict=True) if not idle
            )
        if watermark <= self.watermark:
            return False
        self.watermark = watermark
        return True
