"""Which windows of a key became one, and under which of them their state lies. Flink: MergingWindowSet.

State is not moved when windows merge: the window that came out keeps using the place of one that went in, its state
window. Decides only: what a merge means for state, timers and triggers is done by who is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from flinkbuf.streaming.windows.assigner import MergingWindowAssigner

__all__ = ["MergingWindowSet"]

#: Called with the window that came out, those that went in, the state window that is kept, and those to merge into it.
OnMerge = Callable[[object, Collection[object], object, Collection[object]], None]


class MergingWindowSet:
    """The windows of one key that are not over.

    Parameters
    ----------
    assigner : MergingWindowAssigner
        Says which windows become one.
    mapping : dict, optional
        State window by window, as an earlier set left it; it is not changed.

    Examples
    --------
    >>> from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows
    >>> from flinkbuf.streaming.windows.window import TimeWindow
    >>> windows = MergingWindowSet(EventTimeSessionWindows(10))
    >>> windows.add_window(TimeWindow(0, 10), print)
    TimeWindow(start=0, end=10)
    >>> merged = windows.add_window(TimeWindow(5, 15), lambda *merge: None)
    >>> merged, windows.state_window(merged)
    (TimeWindow(start=0, end=15), TimeWindow(start=0, end=10))
    """

    def __init__(self, assigner: MergingWindowAssigner[object, object], mapping: dict[object, object] | None = None):
        self._assigner = assigner
        self._mapping = dict(mapping or ())
        self.is_changed = False  # since it was made

    @property
    def mapping(self) -> dict[object, object]:
        """State window by window, in the order in which they came to be."""
        return self._mapping

    def state_window(self, window: object) -> object:
        """Return where the state of `window` lies; None if it is none of these."""
        return self._mapping.get(window)

    def retire_window(self, window: object) -> None:
        """Forget a window that is over."""
        if self._mapping.pop(window, None) is None:
            raise ValueError(f"{window} is none of the windows of this key: {list(self._mapping)}")
        self.is_changed = True

    def add_window(self, new_window: object, on_merge: OnMerge) -> object:
        """Add the window of a record; return the one it became part of, or itself.

        Each merge is told to `on_merge` after this set has changed, but one by which nothing changes: a new window
        that lies within one that exists.
        """
        merges = _Merges()
        self._assigner.merge_windows([*self._mapping, new_window], merges)
        result = new_window
        is_merged = False
        for merge_result, windows in merges.found:
            if new_window in windows:
                is_merged = True
                result = merge_result
            self._merge(merge_result, [window for window in self._mapping if window in windows], on_merge)
        # A merge may yield the very window that is new; then it is in the mapping already.
        if not is_merged and result not in self._mapping:
            self._mapping[result] = result
            self.is_changed = True
        return result

    def _merge(self, result: object, windows: list[object], on_merge: OnMerge) -> None:
        if not windows or windows == [result]:
            return
        state_windows = [self._mapping.pop(window) for window in windows]
        self._mapping[result] = state_windows[0]
        self.is_changed = True
        on_merge(result, windows, state_windows[0], state_windows[1:])


class _Merges(MergingWindowAssigner.MergeCallback[object]):
    """Keeps what an assigner finds."""

    def __init__(self) -> None:
        self.found: list[tuple[object, set[object]]] = []

    def merge(self, to_be_merged: Iterable[object], merge_result: object) -> None:
        self.found.append((merge_result, set(to_be_merged)))
