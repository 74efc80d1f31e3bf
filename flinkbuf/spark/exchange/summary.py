"""What the tasks of a pipelined exchange counted, and the table of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskFigures:
    """What one task of a pipelined exchange counted.

    Attributes
    ----------
    index : int
        The task, which is the partition of the result.
    records_in, records_out : int
        Read from the other tasks and itself; written, a broadcast one once.
    bytes_in, bytes_out, buffers_in, buffers_out : int
        The buffers of these records, those to and from itself included; a broadcast buffer counts for each reader.
    back_pressured_ms : int
        How long it had a record to write and neither a free buffer nor anything to read.
    idle_ms : int
        How long it had written everything and waited for the others' records.
    total_ms : int
        From its start to its end, the work of those who use its results included.
    peak_buffers : int
        The most buffers its output held at once.
    """

    index: int
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    buffers_in: int = 0
    buffers_out: int = 0
    back_pressured_ms: int = 0
    idle_ms: int = 0
    total_ms: int = 0
    peak_buffers: int = 0


@dataclass(frozen=True)
class ExchangeSummary:
    """What one run of a pipelined exchange did; ``print(summary.table())`` shows it by task.

    Attributes
    ----------
    exchange_id : str
        16 hexadecimal digits, as in the messages.
    stage : int
        Spark's stage id.
    seconds : float
        From the first task that reported to the last that ended.
    tasks : tuple of TaskFigures
        By index.

    Examples
    --------
    >>> first = TaskFigures(0, records_in=3, records_out=1, bytes_in=60, buffers_in=2, back_pressured_ms=5, total_ms=20)
    >>> second = TaskFigures(1, records_in=1, records_out=3, bytes_out=60, buffers_out=2, idle_ms=10, total_ms=20)
    >>> summary = ExchangeSummary("00000000000000ff", 4, 0.02, (first, second))
    >>> print(summary)
    exchange 00000000000000ff, stage 4: 2 tasks, 4 records in 2 buffers (60 bytes) in 0.02 s, back-pressured 12 %, idle 25 %
    >>> print(summary.table())
    task  records out  records in  buffers out  buffers in  MB out  MB in  back-pressured s  idle s  total s
       0            1           3            0           2     0.0    0.0              0.01    0.00     0.02
       1            3           1            2           0     0.0    0.0              0.00    0.01     0.02
    """  # noqa: E501  # a line of the example is as print shows it

    exchange_id: str
    stage: int
    seconds: float
    tasks: tuple[TaskFigures, ...]

    def total(self, name: str) -> int:
        """Return one of the counts over all tasks."""
        return sum(getattr(task, name) for task in self.tasks)

    def __str__(self) -> str:
        time = max(1, self.total("total_ms"))
        return (
            f"exchange {self.exchange_id}, stage {self.stage}: {len(self.tasks)} tasks, "
            f"{self.total('records_in'):,} records in {self.total('buffers_in'):,} buffers "
            f"({self.total('bytes_in'):,} bytes) in {self.seconds:.2f} s, "
            f"back-pressured {100 * self.total('back_pressured_ms') / time:.0f} %, "
            f"idle {100 * self.total('idle_ms') / time:.0f} %"
        )

    def table(self) -> str:
        """Return the counts as text, one line for each task."""
        rows = [[head for head, *_ in _COLUMNS]]
        rows += [
            [f"{getattr(task, name) / unit:,.{digits}f}" for _, name, unit, digits in _COLUMNS] for task in self.tasks
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


_COLUMNS = (  # head, count, what it is divided by, digits
    ("task", "index", 1, 0),
    ("records out", "records_out", 1, 0),
    ("records in", "records_in", 1, 0),
    ("buffers out", "buffers_out", 1, 0),
    ("buffers in", "buffers_in", 1, 0),
    ("MB out", "bytes_out", 1e6, 1),
    ("MB in", "bytes_in", 1e6, 1),
    ("back-pressured s", "back_pressured_ms", 1000, 2),
    ("idle s", "idle_ms", 1000, 2),
    ("total s", "total_ms", 1000, 2),
)
