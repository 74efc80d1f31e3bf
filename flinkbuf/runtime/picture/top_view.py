"""A job's picture as lines and tables of a terminal: drawn by rich where it is installed, else as plain text. Pure.

A job that runs is drawn as `view_of` says; what `ended_view_of` says stays of one that has ended. No line is wider than
the terminal: columns that say least go first, then names are cut.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flinkbuf.log import printable_line
from flinkbuf.runtime.picture.answers import Picture
from flinkbuf.runtime.picture.plain_words import (
    NOTHING,
    age_text,
    count_text,
    duration_text,
    event_time_text,
    lasting_text,
    percent,
    plural,
    size_text,
)

if TYPE_CHECKING:
    from rich.console import Group

MARKS: Final = {"good": "✓", "fair": "!", "bad": "✗", "quiet": "·"}
COLOURS: Final = {"good": "", "fair": "yellow", "bad": "red", "quiet": ""}  # only where a user has to look
NAME_WIDTH: Final = 48
TASKS_MAX: Final = 40
MANAGERS_MAX: Final = 20
WIDE: Final = 200  # columns, in which nothing has to go
NARROW: Final = 120  # below it bars are short
NAME_LEAST: Final = 20
QUESTION: Final = 26  # columns, with the mark before it
_BAR, _SHORT_BAR = 10, 4
_TASKS: Final = ("Task", "Subtasks", "State", "In", "Out", "Busy", "Held back", "Worst", "Event time")
_OPERATORS: Final = ("Operator", "Subtasks", "In", "In/s", "Out", "Out/s", "Busy", "Held back", "Event time")
_MANAGERS: Final = ("Task manager", "Heard", "Tasks", "In", "Out", "Processor", "Memory", "Buffers", "")
# What goes first where it does not fit: the worst subtask and event time stand in the answers, too.
_TASKS_SPARE: Final = ("Event time", "Worst", "State", "Subtasks", "Out")
_OPERATORS_SPARE: Final = ("Event time", "Subtasks", "Out/s", "In/s", "Held back")
_COUNTS: Final = ("records_in", "records_out", "rows_in", "rows_out")
_MANAGERS_SPARE: Final = ("Out", "In", "Buffers", "Tasks", "Processor", "Heard")


@dataclass(frozen=True)
class TopSection:
    """A table with a line above it; the first column is text, the others figures; `spare` columns go first."""

    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    spare: tuple[str, ...] = ()

    def fitted(self, width: int) -> list[tuple[str, ...]]:
        """Return head and rows, as many columns as fit, the first cut to the width that is left.

        Examples
        --------
        >>> TopSection(("Task", "In", "Out"), [("a name that is long", "12/s", "13/s")], ("Out",)).fitted(22)
        [('Task', 'In'), ('a name that is …', '12/s')]
        """
        lines = [self.names, *self.rows]
        kept = list(range(len(self.names)))
        widths = [max(cells_of(line[place]) for line in lines) for place in kept]
        for name in self.spare:
            least = min(widths[0], NAME_LEAST)
            if least + sum(widths[place] + 2 for place in kept[1:]) > width:
                kept.remove(self.names.index(name))
        room = max(4, width - sum(widths[place] + 2 for place in kept[1:]))
        return [(cut(line[0], room), *(line[place] for place in kept[1:])) for line in lines]


@dataclass(frozen=True)
class TopView:
    """What is shown of a picture.

    Attributes
    ----------
    title : str
    answers : list of (level, question, answer, detail)
    sections : list of TopSection
    notes : list of str
        What stands below all.
    width : int
        Columns that there are.
    """

    title: str
    answers: list[tuple[str, str, str, str]]
    sections: list[TopSection]
    notes: list[str]
    width: int = WIDE


def view_of(picture: Picture, width: int = WIDE) -> TopView:
    """Return what is shown in so many columns.

    Examples
    --------
    >>> view_of({"name": "numbers", "jid": "c" * 32, "state": "RUNNING", "duration": 61_000, "now": 5, "vertices": [],
    ...          "taskmanagers": [], "answers": [], "exceptions": {"root-exception": None}}).title
    'numbers · running for 1 min 1 s · cccccccccccccccccccccccccccccccc'
    """
    state = picture["state"].lower()
    title = _titled(picture, f" · {state} for {lasting_text(picture['duration'])} · {picture['jid']}", width)
    answers = [
        (each["level"], each["question"], printable_line(each["answer"]), printable_line(each["detail"]))
        for each in picture["answers"]
    ]
    length = _SHORT_BAR if width < NARROW else _BAR
    sections = [TopSection(_TASKS, [_task(each, length) for each in picture["vertices"][:TASKS_MAX]], _TASKS_SPARE)]
    managers = picture["taskmanagers"]
    if managers:
        ill_first = sorted(managers, key=lambda each: not each.get("illness"))
        rows = [_manager(each) for each in ill_first[:MANAGERS_MAX]]
        sections.append(TopSection(_MANAGERS, rows, _MANAGERS_SPARE))
    notes = _left_out("tasks", picture["vertices"], TASKS_MAX) + _left_out("task managers", managers, MANAGERS_MAX)
    if picture["exceptions"]["root-exception"]:
        ago = age_text(picture["now"] - picture["exceptions"]["timestamp"])
        notes.append(f"last failure, {ago}: {_headline(picture['exceptions']['exceptionHistory']['entries'][0])}")
    return TopView(title, answers, sections, notes, width)


def ended_view_of(picture: Picture, width: int = WIDE) -> TopView:
    """Return what stays of a job that has ended: what each operator has had and made, over the whole life of the job.

    What is known of a task as a whole stands at its first operator.
    """
    duration_ms, restarts = max(1, picture["duration"]), picture["restarts"]
    about = f" · {picture['state'].lower()} in {duration_text(duration_ms)}"
    if restarts:
        about += f" · restarted {plural(restarts, 'time')}"
    rows = [row for vertex in picture["vertices"][:TASKS_MAX] for row in _operators(vertex, duration_ms)]
    sections = [TopSection(_OPERATORS, rows, _OPERATORS_SPARE)]
    return TopView(
        _titled(picture, about, width), [], sections, _left_out("tasks", picture["vertices"], TASKS_MAX), width
    )


def _titled(picture: Picture, about: str, width: int) -> str:
    """Return the job's name, as much of it as there is room for, and what is said about it."""
    return cut(printable_line(picture["name"]), max(4, width - len(about))) + about


def _left_out(what: str, whole: Sequence[object], shown: int) -> list[str]:
    """Return the note on what is not shown; none if all is."""
    return [f"and {len(whole) - shown:,} more {what}"] if len(whole) > shown else []


def _operators(vertex: Picture, duration_ms: int) -> list[tuple[str, ...]]:
    totals, lasted_ms = vertex["totals"], duration_ms * max(1, vertex["parallelism"])
    whole = [percent(min(1.0, totals[name] / lasted_ms)) for name in ("busy_ms", "back_pressured_ms")]
    whole.append(event_time_text(vertex["watermark"]["lowest"]))
    rows = []
    itself = {"name": vertex["name"], **{key: totals.get(key) for key in _COUNTS}}
    for place, operator in enumerate(vertex["operators"] or [itself]):
        name = printable_line(operator["name"])
        cells = []
        for way, end in (("in", "Source: "), ("out", "Sink: ")):
            count, row_count = operator[f"records_{way}"], operator.get(f"rows_{way}")
            if count is None or name.startswith(end):
                cells += [NOTHING, NOTHING]
            else:
                several = "batch" if count == 1 else "batches"
                cells.append(f"{row_count:,} rows in {count:,} {several}" if row_count else f"{count:,}")
                cells.append(f"{(row_count or count) * 1000 / duration_ms:,.0f}")
        indent, rest = ("  ", [NOTHING] * 3) if place else ("", whole)
        rows.append((cut(indent + name, NAME_WIDTH), f"{vertex['parallelism']:,}", *cells, *rest))
    return rows


def cells_of(text: str) -> int:
    """Return how many columns a text takes in a terminal.

    Examples
    --------
    >>> cells_of("flug"), cells_of("航班")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else not unicodedata.combining(sign) for sign in text)


def cut(text: str, width: int) -> str:
    """Return a text in so many columns at most.

    Examples
    --------
    >>> cut("join: CoProcess", 8), cut("join", 8)
    ('join: C…', 'join')
    """
    if cells_of(text) <= width:
        return text
    while text and cells_of(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _task(vertex: Picture, length: int) -> tuple[str, ...]:
    name, rates, watermark = printable_line(vertex["name"]), vertex["rates"], vertex["watermark"]
    lag = "" if watermark["lag"] is None else f" ({duration_text(watermark['lag'])} behind)"
    return (
        cut(name, NAME_WIDTH),
        f"{vertex['parallelism']:,}",
        vertex["status"].lower(),
        _flow(rates, "in"),
        _flow(rates, "out"),
        bar(vertex["busy"], length),
        bar(vertex["back_pressured"], length),
        _worst(vertex),
        event_time_text(watermark["lowest"]) + lag,
    )


def _flow(rates: Mapping[str, float], way: str) -> str:
    """Return how much comes or goes in a second: records; or rows, and how many batches of how many they are."""
    count, rows = rates[f"records_{way}"], rates.get(f"rows_{way}", 0)
    if not rows or not count:
        return f"{count_text(count)}/s"
    return f"{count_text(rows)} rows/s ({count_text(count)} × {count_text(rows / count)})"


def _worst(vertex: Picture) -> str:
    busiest, held = vertex["busiest"], vertex["most_held_back"]
    if busiest is None:
        return ""
    if held is not None and held["ratio"] > max(0.1, busiest["ratio"]):
        return f"{held['subtask']}: {percent(held['ratio'])} held back"
    return f"{busiest['subtask']}: {percent(busiest['ratio'])} busy"


def _manager(manager: Picture) -> tuple[str, ...]:
    metrics = manager["metrics"]
    used, limit = metrics.get("resident_bytes"), metrics.get("memory_limit_bytes")
    memory = "" if used is None else size_text(used) + (f" of {size_text(limit)}" if limit else "")
    buffers = metrics.get("totalMemorySegments")
    return (
        printable_line(manager["id"]),
        age_text(manager["heartbeat-age"]),
        str(manager["tasks"]),
        f"{count_text(manager['records_in'])}/s",
        f"{count_text(manager['records_out'])}/s",
        percent(metrics["cpu_share"]) if "cpu_share" in metrics else "",
        memory,
        f"{metrics.get('usedMemorySegments', 0):,} of {buffers:,}" if buffers else "",
        printable_line(manager.get("illness", "")),
    )


def _headline(failure: Picture) -> str:
    """Return the type and the first line of the message of what has failed."""
    name, message = failure["exceptionName"].rpartition(".")[2], failure.get("message", "").strip().partition("\n")[0]
    return printable_line((f"{name}: {message}" if message else name)[:300])


def bar(share: float, length: int = _BAR) -> str:
    """Return a share as a bar and a number.

    Examples
    --------
    >>> bar(0.34)
    '███▍        34 %'
    """
    eighths = round(max(0.0, min(1.0, share)) * length * 8)
    drawn = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
    return f"{drawn:<{length}} {percent(share):>5}"


def text_of(view: TopView) -> str:
    """Return the view as plain text."""
    lines = [view.title, *([""] if view.answers else [])]
    for level, question, answer, detail in view.answers:
        lines += _answer_lines(f"{MARKS[level]} {question}", answer, detail, view.width)
    for section in view.sections:
        lines += ["", *_columns(section.fitted(view.width))]
    notes = [line for note in view.notes for line in textwrap.wrap(note, view.width)]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _answer_lines(question: str, answer: str, detail: str, width: int) -> list[str]:
    """Return an answer in a line, or with the detail below where it does not fit."""
    first = f"{question:<{QUESTION}}{answer}"
    if detail and cells_of(first) + cells_of(detail) + 4 <= width:
        return [f"{first}  ({detail})"]
    indent = " " * QUESTION
    more = textwrap.wrap(detail, max(20, width - QUESTION)) if detail else []
    return [cut(first, width), *(cut(indent + line, width) for line in more)]


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(cells_of, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(_padded(line[place], width, place) for place, width in enumerate(widths)).rstrip() for line in lines
    ]


def _padded(cell: str, width: int, place: int) -> str:
    """Return cells in columns: names begin on the left, figures end on the right."""
    room = " " * (width - cells_of(cell))
    return room + cell if place else cell + room


def rich_of(view: TopView) -> Group:
    """Return the view as rich draws it. A user's names are no markup."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    answers = []
    for level, question, answer, detail in view.answers:
        colour, asked = COLOURS[level], f"{MARKS[level]} {question}"
        for number, line in enumerate(_answer_lines(asked, answer, detail, view.width)):
            text = Text(line, "dim", no_wrap=True)
            if number == 0:
                text.stylize(colour, 0, 1)
                text.stylize(f"not dim bold {colour}", QUESTION, QUESTION + len(answer))
            answers.append(text)
    below = 1 if answers else 0
    parts: list[Text | Padding] = [Text(view.title, "bold", no_wrap=True), Padding(Group(*answers), (1, 0, below, 0))]
    for section in view.sections:
        names, *rows = section.fitted(view.width)
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for place, name in enumerate(names):
            table.add_column(name, justify="right" if place else "left", no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        parts.append(Padding(table, (0, 0, 1, 0)))
    return Group(*parts, *(Text(note) for note in view.notes))
