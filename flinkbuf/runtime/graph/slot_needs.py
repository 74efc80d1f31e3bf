"""How many slots a job needs: at once, or one region after the other. Plain numbers in and out.

Flink: SlotSharingGroup, DefaultLogicalTopology.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Need = tuple[str, int]  # a slot sharing group, and how many of its slots a vertex takes


def widths(needs: Iterable[Need]) -> dict[str, int]:
    """Return how many slots each group needs: as many as its widest vertex, in the order in which they appear.

    Examples
    --------
    >>> widths([("a", 2), ("b", 1), ("a", 3), ("c", 0)])
    {'a': 3, 'b': 1}
    """
    groups: dict[str, int] = {}
    for group, count in needs:
        if count > 0:
            groups[group] = max(groups.get(group, 0), count)
    return groups


def slots_of_widest(needs: Sequence[Need], regions: Iterable[Iterable[int]]) -> int:
    """Return how many slots are needed when one region runs at a time.

    Examples
    --------
    >>> slots_of_widest([("a", 2), ("b", 1), ("a", 3)], [[0, 1], [2]])
    3
    """
    return max((sum(widths(needs[index] for index in region).values()) for region in regions), default=0)


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the groups of numbers from 0 that the pairs connect, each in order, and ordered by their first.

    Examples
    --------
    >>> connected(4, [(0, 2), (3, 2)])
    [[0, 2, 3], [1]]
    """
    parent = list(range(count))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    for one, other in pairs:
        parent[max(root(one), root(other))] = min(root(one), root(other))
    groups: dict[int, list[int]] = {}
    for number in range(count):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())
