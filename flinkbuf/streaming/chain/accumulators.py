"""Values that functions add up while a job runs, one result for the whole job.

Each subtask has an accumulator of its own; its value travels with heartbeats and with the task's last report, as JSON,
and the job master merges them. Flink: org.apache.flink.api.common.accumulators.
"""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final

Json = dict[str, Any]


class Accumulator(ABC):
    """Something that can be added to, and merged with others of its kind. Flink: Accumulator.

    Only the task's thread adds; any thread may read the value.
    """

    @abstractmethod
    def add(self, value: Any) -> None:
        """Take one more value into account."""

    @abstractmethod
    def get_local_value(self) -> object:
        """Return the result of this subtask so far."""

    @abstractmethod
    def reset_local(self) -> None:
        """Begin anew."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take what another one of the same kind has."""

    @abstractmethod
    def state(self) -> object:
        """Return what `restore` needs, as JSON can carry it."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Be what another one was."""


class _Number(Accumulator):
    """A number, as it is and as it travels; JSON has no other numbers than these."""

    _start: Any = 0

    def __init__(self) -> None:
        self._value = self._start

    def get_local_value(self) -> object:
        """Return the number so far."""
        return self._value

    def reset_local(self) -> None:
        """Begin anew."""
        self._value = self._start

    def state(self) -> object:
        """Return the number."""
        return self._value

    def restore(self, state: object) -> None:
        """Take the number."""
        self._value = state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value}>"


class IntCounter(_Number):
    """Adds up whole numbers. Flink: IntCounter, LongCounter.

    Examples
    --------
    >>> lines = IntCounter()
    >>> lines.add(3); lines.add(4)
    >>> lines.get_local_value()
    7
    """

    def add(self, value: int) -> None:
        """Add a whole number."""
        self._value += value.__index__()

    def merge(self, other: IntCounter) -> None:
        """Add what another one has."""
        self._value += other._value


class DoubleCounter(_Number):
    """Adds up numbers. Flink: DoubleCounter.

    Examples
    --------
    >>> distance = DoubleCounter()
    >>> distance.add(0.5); distance.add(2)
    >>> distance.get_local_value()
    2.5
    """

    _start = 0.0

    def add(self, value: float) -> None:
        """Add a number."""
        self._value += float(value)

    def merge(self, other: DoubleCounter) -> None:
        """Add what another one has."""
        self._value += other._value


class _Extreme(_Number):
    """The least or the greatest; None before there was any."""

    _start = None
    _choose: Any = min
    _kind: Any = operator.index

    def add(self, value: object) -> None:
        """Take one more number into account."""
        number = type(self)._kind(value)
        self._value = number if self._value is None else type(self)._choose(self._value, number)

    def merge(self, other: _Extreme) -> None:
        """Take what another one has."""
        if other._value is not None:
            self.add(other._value)


class IntMinimum(_Extreme):
    """The least whole number. Flink: IntMinimum.

    Examples
    --------
    >>> least = IntMinimum()
    >>> least.get_local_value()
    >>> least.add(3); least.add(5)
    >>> least.get_local_value()
    3
    """


class IntMaximum(_Extreme):
    """The greatest whole number. Flink: IntMaximum.

    Examples
    --------
    >>> greatest = IntMaximum()
    >>> greatest.add(3); greatest.add(5)
    >>> greatest.get_local_value()
    5
    """

    _choose = max


class DoubleMinimum(_Extreme):
    """The least number. Flink: DoubleMinimum.

    Examples
    --------
    >>> least = DoubleMinimum()
    >>> least.add(3); least.add(0.5)
    >>> least.get_local_value()
    0.5
    """

    _kind = float


class DoubleMaximum(_Extreme):
    """The greatest number. Flink: DoubleMaximum.

    Examples
    --------
    >>> greatest = DoubleMaximum()
    >>> greatest.add(3); greatest.add(0.5)
    >>> greatest.get_local_value()
    3.0
    """

    _kind = float
    _choose = max


class AverageAccumulator(Accumulator):
    """The mean of numbers; 0.0 before there was any. Flink: AverageAccumulator.

    Examples
    --------
    >>> delay = AverageAccumulator()
    >>> delay.add(4); delay.add(8)
    >>> delay.get_local_value()
    6.0
    """

    def __init__(self) -> None:
        self._state = (0, 0.0)  # count and sum, exchanged as one: another thread may read

    def add(self, value: float) -> None:
        """Take one more number into account."""
        count, total = self._state
        self._state = (count + 1, total + float(value))

    def get_local_value(self) -> float:
        """Return the mean so far."""
        count, total = self._state
        return total / count if count else 0.0

    def reset_local(self) -> None:
        """Begin anew."""
        self._state = (0, 0.0)

    def merge(self, other: AverageAccumulator) -> None:
        """Weigh in what another one has."""
        count, total = self._state
        self._state = (count + other._state[0], total + other._state[1])

    def state(self) -> object:
        """Return count and sum."""
        return list(self._state)

    def restore(self, state: Any) -> None:
        """Take count and sum."""
        self._state = (state[0], state[1])

    def __repr__(self) -> str:
        return f"<AverageAccumulator {self.get_local_value()} of {self._state[0]}>"


class Histogram(Accumulator):
    """How often each whole number came. Flink: Histogram.

    Examples
    --------
    >>> stops = Histogram()
    >>> for number in (1, 0, 1):
    ...     stops.add(number)
    >>> stops.get_local_value()
    {0: 1, 1: 2}
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        """Count one more of a number."""
        number = value.__index__()
        self._counts[number] = self._counts.get(number, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        """Return the counts, by number, in ascending order."""
        return dict(sorted(self._counts.copy().items()))

    def reset_local(self) -> None:
        """Begin anew."""
        self._counts = {}

    def merge(self, other: Histogram) -> None:
        """Add the counts of another one."""
        for number, count in other._counts.items():
            self._counts[number] = self._counts.get(number, 0) + count

    def state(self) -> object:
        """Return pairs of number and count: the keys of a JSON object are texts."""
        return [list(pair) for pair in self.get_local_value().items()]

    def restore(self, state: Any) -> None:
        """Take pairs of number and count."""
        self._counts = dict(state)

    def __repr__(self) -> str:
        return f"<Histogram {self.get_local_value()}>"


class ListAccumulator(Accumulator):
    """All values, those of a subtask in their order; of what JSON can carry. Flink: ListAccumulator.

    For a few values: all of them travel with each heartbeat.

    Examples
    --------
    >>> odd = ListAccumulator()
    >>> odd.add("N101"); odd.add(["N7", 3])
    >>> odd.get_local_value()
    ['N101', ['N7', 3]]
    """

    def __init__(self) -> None:
        self._values: list[object] = []

    def add(self, value: object) -> None:
        """Keep one more value.

        Raises
        ------
        TypeError, ValueError
            JSON has nothing like it, or it holds itself.
        """
        self._values.append(json.loads(json.dumps(value)))

    def get_local_value(self) -> list[object]:
        """Return all values so far."""
        return list(self._values)

    def reset_local(self) -> None:
        """Begin anew."""
        self._values = []

    def merge(self, other: ListAccumulator) -> None:
        """Append the values of another one."""
        self._values += other._values

    def state(self) -> object:
        """Return the values."""
        return list(self._values)

    def restore(self, state: Any) -> None:
        """Take the values."""
        self._values = list(state)

    def __repr__(self) -> str:
        return f"<ListAccumulator of {len(self._values)}>"


KINDS: Final[dict[str, type[Accumulator]]] = {
    kind.__name__: kind
    for kind in (
        IntCounter,
        DoubleCounter,
        IntMinimum,
        IntMaximum,
        DoubleMinimum,
        DoubleMaximum,
        AverageAccumulator,
        Histogram,
        ListAccumulator,
    )
}


class AccumulatorRegistry:
    """The accumulators of one task, by name; all its operators share the names. Flink: AccumulatorRegistry."""

    def __init__(self) -> None:
        self._accumulators: dict[str, Accumulator] = {}

    def add(self, name: str, accumulator: Accumulator) -> None:
        """Have a name for an accumulator.

        Raises
        ------
        ValueError
            The name is taken.
        TypeError
            It is of no kind that can be merged elsewhere.
        """
        if not isinstance(name, str):
            raise TypeError(f"an accumulator's name is a text, got {name!r}")
        if type(accumulator) not in KINDS.values():
            raise TypeError(f"an accumulator is one of {', '.join(KINDS)}, got {accumulator!r}")
        if name in self._accumulators:
            raise ValueError(
                f"The accumulator '{name}' already exists and cannot be added: another function of this task has it"
            )
        self._accumulators[name] = accumulator

    def get(self, name: str) -> Accumulator | None:
        """Return the accumulator of that name; None: there is none."""
        return self._accumulators.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._accumulators))

    def to_json(self) -> Json:
        """Return kinds and values by name; from any thread."""
        return {
            name: {"type": type(accumulator).__name__, "value": accumulator.state()}
            for name, accumulator in self._accumulators.copy().items()
        }


def _made_of(name: str, data: Json) -> Accumulator:
    kind = KINDS.get(data["type"])
    if kind is None:
        raise ValueError(f"accumulator '{name}' is of an unknown kind {data['type']!r}")
    accumulator = kind()
    accumulator.restore(data["value"])
    return accumulator


def conflict_text(name: str, kind: str, other: str, task: str = "one task", other_task: str = "another") -> str:
    """Return what is wrong with one name for two kinds."""
    return f"accumulator '{name}' is {kind} in {task} and {other} in {other_task}: give one of them another name"


def merge_accumulators(parts: Iterable[Json]) -> Json:
    """Merge what the tasks of a job have, each by name: kinds and values, as `AccumulatorRegistry.to_json` gives them.

    Raises
    ------
    ValueError
        Two of one name are of different kinds.

    Examples
    --------
    >>> here, there = {"type": "IntCounter", "value": 3}, {"type": "IntCounter", "value": 4}
    >>> merge_accumulators([{"lines": here}, {"lines": there}])
    {'lines': {'type': 'IntCounter', 'value': 7}}
    """
    merged: dict[str, Accumulator] = {}
    for part in parts:
        for name, data in part.items():
            accumulator = _made_of(name, data)
            known = merged.setdefault(name, accumulator)
            if type(known) is not type(accumulator):
                raise ValueError(conflict_text(name, type(known).__name__, type(accumulator).__name__))
            if known is not accumulator:
                known.merge(accumulator)
    return {name: {"type": type(each).__name__, "value": each.state()} for name, each in merged.items()}


def results_of(accumulators: Json) -> dict[str, object]:
    """Return the plain values of merged accumulators, by name.

    Examples
    --------
    >>> results_of({"delay": {"type": "AverageAccumulator", "value": [2, 12.0]}})
    {'delay': 6.0}
    """
    return {name: _made_of(name, data).get_local_value() for name, data in accumulators.items()}
