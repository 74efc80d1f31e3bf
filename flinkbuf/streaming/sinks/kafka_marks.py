"""Which transactions of Kafka were committed: a text of at most 4,096 bytes that is committed with the last of them."""

from __future__ import annotations

_TEXT_BYTES = 4_000  # brokers take offset.metadata.max.bytes, 4,096 unless they are told otherwise

_Ranges = list[tuple[int, int]]  # the first and the last number of each, in order


class CommittedNumbers:
    """The numbers of the transactions that each writer has committed, as ranges.

    A writer counts its transactions. They are committed in order, but for some that a rescale gave to several subtasks,
    so nearly always one range says them all. What no longer fits is forgotten, the oldest writers first.

    Examples
    --------
    >>> committed = CommittedNumbers.parse("a1:1-57")
    >>> committed.add("a1.59")
    >>> committed.add("b2.1")
    >>> str(committed), "a1.57" in committed, "a1.58" in committed
    ('a1:1-57,59-59 b2:1-1', True, False)
    """

    def __init__(self) -> None:
        self._ranges: dict[str, _Ranges] = {}  # by writer, the oldest first

    @staticmethod
    def parse(text: str) -> CommittedNumbers:
        """Return what a text says."""
        parsed = CommittedNumbers()
        for each in text.split():
            writer, _, ranges = each.partition(":")  # none: a transaction without a number, from before there were some
            pairs = [each.split("-") for each in ranges.split(",") if each]
            parsed._ranges[writer] = [(int(first), int(last)) for first, last in pairs]
        return parsed

    def __contains__(self, name: str) -> bool:
        writer, number = _parts(name)
        ranges = self._ranges.get(writer)
        if ranges is None or number is None:
            return ranges is not None
        return any(first <= number <= last for first, last in ranges)

    def add(self, name: str) -> None:
        """Add a transaction."""
        writer, number = _parts(name)
        ranges = self._ranges.setdefault(writer, [])
        if number is not None and name not in self:
            self._ranges[writer] = _merged(sorted([*ranges, (number, number)]))

    def __str__(self) -> str:
        texts = []
        left = _TEXT_BYTES
        for writer, ranges in reversed(self._ranges.items()):
            said = [f"{first}-{last}" for first, last in ranges]
            while said and len(writer) + sum(len(each) + 1 for each in said) > left:
                said.pop(0)
            text = f"{writer}:{','.join(said)}" if said else writer
            left -= len(text) + 1
            if left < 0 or (ranges and not said):
                break
            texts.append(text)
        return " ".join(reversed(texts))


def _parts(name: str) -> tuple[str, int | None]:
    writer, dot, number = name.partition(".")
    return writer, int(number) if dot else None


def _merged(ranges: _Ranges) -> _Ranges:
    merged: _Ranges = []
    for first, last in ranges:
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
