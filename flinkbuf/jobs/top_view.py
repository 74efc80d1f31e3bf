"""A job's picture as lines and tables of a terminal: drawn by rich where it is installed, else as plain text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkbuf.jobs.master.plain_words import (
    age_text,
    count_text,
    duration_text,
    event_time_text,
    lasting_text,
    percent,
    size_text,
)
from flinkbuf.log import printable_line

Picture = Mapping[str, Any]
MARKS: Final = {"good": "✓", "fair": "!", "bad": "✗", "quiet": "·"}
COLOURS: Final = {"good": "green", "fair": "yellow", "bad": "red", "quiet": "bright_black"}
NAME_WIDTH: Final = 48
TASKS_MAX: Final = 40
MANAGERS_MAX: Final = 20
_BAR: Final = 10
_TASKS: Final = ("Task", "Subtasks", "State", "In", "Out", "Busy", "Held back", "Worst", "Event time")
_MANAGERS: Final = ("Task manager", "Heard", "Tasks", "In", "Out", "Processor", "Memory", "Buffers", "")


@dataclass(frozen=True)
class TopSection:
    """A table with a line above it; the first column is text, the others figures."""

    names: tuple[str, ...]
    rows: list[tuple[str, ...]]


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
    """

    title: str
    answers: list[tuple[str, str, str, str]]
    sections: list[TopSection]
    notes: list[str]


def view_of(picture: Picture) -> TopView:
    """Return what is shown.

    Examples
    --------
    >>> view_of({"name": "numbers", "jid": "c" * 32, "state": "RUNNING", "duration": 61_000, "now": 5, "vertices": [],
    ...          "taskmanagers": [], "answers": [], "exceptions": {"root-exception": None}}).title
    'numbers · running for 1 min 1 s · cccccccccccccccccccccccccccccccc'
    """
    state = picture["state"].lower()
    title = f"{printable_line(picture['name'])} · {state} for {lasting_text(picture['duration'])} · {picture['jid']}"
    answers = [
        (each["level"], each["question"], printable_line(each["answer"]), printable_line(each["detail"]))
        for each in picture["answers"]
    ]
    sections = [TopSection(_TASKS, [_task(vertex) for vertex in picture["vertices"][:TASKS_MAX]])]
    managers = picture["taskmanagers"]
    if managers:
        ill_first = sorted(managers, key=lambda each: not each.get("illness"))
        sections.append(TopSection(_MANAGERS, [_manager(each) for each in ill_first[:MANAGERS_MAX]]))
    notes = []
    for what, whole, shown in (("tasks", picture["vertices"], TASKS_MAX), ("task managers", managers, MANAGERS_MAX)):
        if len(whole) > shown:
            notes.append(f"and {len(whole) - shown:,} more {what}")
    if picture["exceptions"]["root-exception"]:
        ago = age_text(picture["now"] - picture["exceptions"]["timestamp"])
        notes.append(f"last failure, {ago}: {_headline(picture['exceptions']['exceptionHistory']['entries'][0])}")
    return TopView(title, answers, sections, notes)


def _task(vertex: Picture) -> tuple[str, ...]:
    name, rates, watermark = printable_line(vertex["name"]), vertex["rates"], vertex["watermark"]
    lag = "" if watermark["lag"] is None else f" ({duration_text(watermark['lag'])} behind)"
    return (
        name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…",
        f"{vertex['parallelism']:,}",
        vertex["status"].lower(),
        f"{count_text(rates['records_in'])}/s",
        f"{count_text(rates['records_out'])}/s",
        bar(vertex["busy"]),
        bar(vertex["back_pressured"]),
        _worst(vertex),
        event_time_text(watermark["lowest"]) + lag,
    )


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


def _headline(failure: Mapping[str, Any]) -> str:
    """Return the type and the first line of the message of what has failed."""
    name, message = failure["exceptionName"].rpartition(".")[2], failure.get("message", "").strip().partition("\n")[0]
    return printable_line((f"{name}: {message}" if message else name)[:300])


def bar(share: float) -> str:
    """Return a share as a bar and a number.

    Examples
    --------
    >>> bar(0.34)
    '███▍        34 %'
    """
    eighths = round(max(0.0, min(1.0, share)) * _BAR * 8)
    drawn = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
    return f"{drawn:<{_BAR}} {percent(share):>5}"


def text_of(view: TopView) -> str:
    """Return it as plain text."""
    lines = [view.title, ""]
    for level, question, answer, detail in view.answers:
        lines.append(f"{MARKS[level]} {question:<24}{answer}" + (f"  ({detail})" if detail else ""))
    for section in view.sections:
        lines += ["", *_columns(section.names, section.rows)]
    return "\n".join([*lines, *([""] if view.notes else []), *view.notes]) + "\n"


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (names, *rows)
    ]


def rich_of(view: TopView) -> Any:
    """Return it as what rich draws. Names of a user's are no markup."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    answers = Table.grid(padding=(0, 2))
    for level, question, answer, detail in view.answers:
        colour = COLOURS[level]
        answers.add_row(
            Text(MARKS[level], colour), Text(question, "dim"), Text(answer, f"bold {colour}"), Text(detail, "dim")
        )
    parts: list[Any] = [Text(view.title, "bold"), Padding(answers, (1, 0))]
    for section in view.sections:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for place, name in enumerate(section.names):
            table.add_column(name, justify="right" if place else "left", no_wrap=True, overflow="ellipsis")
        for row in section.rows:
            table.add_row(*(Text(cell) for cell in row))
        parts.append(Padding(table, (0, 0, 1, 0)))
    return Group(*parts, *(Text(note) for note in view.notes))
