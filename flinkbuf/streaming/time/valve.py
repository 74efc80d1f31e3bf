"""How far event time is at one logical input that several channels feed.

Each channel brings its own watermarks and says whether it is idle. What leaves the valve is the lowest watermark of the
channels that count: those that are active and have caught up with what was already given out. Flink:
StatusWatermarkValve. Decides only: no clock, no thread; what it lets out it gives to its output at once.
"""

from __future__ import annotations

from typing import Protocol

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP


class ValveOutput(Protocol):
    """Where a valve's watermarks and statuses go. Flink: PushingAsyncDataInput.DataOutput."""

    def emit_watermark(self, timestamp: int) -> None:
        """Take a watermark: no record with a timestamp up to this one comes through a channel that counts."""
        ...

    def emit_watermark_status(self, is_idle: bool) -> None:
        """Take the status: whether all channels are idle."""
        ...


class StatusWatermarkValve:
    """The watermark and the status of all channels of an input together.

    Parameters
    ----------
    channel_count : int
        Channels are numbered from 0. All begin active and without a watermark.
    output : ValveOutput
        Is told of each watermark that is higher than the last, and of each change of the status.

    References
    ----------
    Flink ``StatusWatermarkValve`` of 2.3: as soon as all channels are idle, the highest watermark that any of them
    reached goes out, whichever went idle last.

    Examples
    --------
    >>> class Printer:
    ...     def emit_watermark(self, timestamp):
    ...         print("watermark", timestamp)
    ...     def emit_watermark_status(self, is_idle):
    ...         print("idle" if is_idle else "active")
    >>> valve = StatusWatermarkValve(2, Printer())
    >>> valve.input_watermark(5, 0)
    >>> valve.input_watermark(3, 1)
    watermark 3
    >>> valve.input_watermark_status(True, 1)
    watermark 5
    """

    def __init__(self, channel_count: int, output: ValveOutput):
        if channel_count < 1:
            raise ValueError(f"an input is fed by at least one channel, got {channel_count}")
        self.output = output
        self.last_watermark = NO_TIMESTAMP  # given out
        self.is_idle = False  # the status given out
        self._watermarks = [NO_TIMESTAMP] * channel_count
        self._is_active = [True] * channel_count
        self._active_count = channel_count
        self._aligned = _AlignedChannels(self._watermarks)

    def input_watermark(self, timestamp: int, channel: int) -> None:
        """Take a watermark of one channel; one of an idle channel is forgotten."""
        if not self._is_active[channel] or timestamp <= self._watermarks[channel]:
            return
        self._watermarks[channel] = timestamp
        if channel in self._aligned:
            self._aligned.sink(channel)
        elif timestamp >= self.last_watermark:  # the channel resumed too far behind, and has caught up now
            self._aligned.add(channel)
        self._emit_lowest()

    def input_watermark_status(self, is_idle: bool, channel: int) -> None:
        """Note that a channel sends no watermarks for a while, or that it does again."""
        if is_idle == (not self._is_active[channel]):
            return
        self._is_active[channel] = not is_idle
        if is_idle:
            self._active_count -= 1
            self._leave(channel)
        else:
            self._active_count += 1
            self._resume(channel)

    def _leave(self, channel: int) -> None:
        self._aligned.discard(channel)
        if not self._active_count:
            self._emit_if_higher(max(self._watermarks))  # no channel is left to wait for
            self.is_idle = True
            self.output.emit_watermark_status(True)
        elif self._watermarks[channel] == self.last_watermark:  # the others may have waited for this one
            self._emit_lowest()

    def _resume(self, channel: int) -> None:
        # A channel that is behind would hold the others back: it counts again once it has caught up.
        if self._watermarks[channel] >= self.last_watermark:
            self._aligned.add(channel)
        if self.is_idle:
            self.is_idle = False
            self.output.emit_watermark_status(False)

    def _emit_lowest(self) -> None:
        lowest = self._aligned.lowest()
        if lowest is not None:
            self._emit_if_higher(lowest)

    def _emit_if_higher(self, watermark: int) -> None:
        if watermark > self.last_watermark:
            self.last_watermark = watermark
            self.output.emit_watermark(watermark)


class _AlignedChannels:
    """The channels that hold event time back, as a binary heap by watermark in which each knows its place."""

    def __init__(self, watermarks: list[int]):
        self._watermarks = watermarks  # the valve's, by channel
        self._heap = list(range(len(watermarks)))  # all equal: any order is a heap
        self._place = list(range(len(watermarks)))  # of a channel in the heap; -1: it is not there

    def __contains__(self, channel: int) -> bool:
        return self._place[channel] >= 0

    def lowest(self) -> int | None:
        return self._watermarks[self._heap[0]] if self._heap else None

    def add(self, channel: int) -> None:
        self._heap.append(channel)
        self._rise(len(self._heap) - 1)

    def discard(self, channel: int) -> None:
        place = self._place[channel]
        if place < 0:
            return
        self._place[channel] = -1
        last = self._heap.pop()
        if last != channel:
            self._heap[place] = last
            self._rise(place)
            self.sink(last)

    def sink(self, channel: int) -> None:
        """Put a channel right whose watermark has grown."""
        heap, watermarks, place = self._heap, self._watermarks, self._place[channel]
        while True:
            child = 2 * place + 1
            if child + 1 < len(heap) and watermarks[heap[child + 1]] < watermarks[heap[child]]:
                child += 1
            if child >= len(heap) or watermarks[channel] <= watermarks[heap[child]]:
                break
            self._put(heap[child], place)
            place = child
        self._put(channel, place)

    def _rise(self, place: int) -> None:
        heap, watermarks = self._heap, self._watermarks
        channel = heap[place]
        while place and watermarks[channel] < watermarks[heap[(place - 1) // 2]]:
            self._put(heap[(place - 1) // 2], place)
            place = (place - 1) // 2
        self._put(channel, place)

    def _put(self, channel: int, place: int) -> None:
        self._heap[place] = channel
        self._place[channel] = place
