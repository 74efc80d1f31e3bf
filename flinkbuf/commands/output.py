"""What commands print: JSON for programs, tables for people (by rich where it is installed and a terminal reads).

Names, texts of exceptions and paths come from jobs and files of others: what would command a terminal is shown instead.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from flinkbuf.log import printable, printable_line

_COMMANDING = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # what JSON itself does not escape
_NUMBERS = ("Size", "Records", "Buffers", "Compressed", "Events", "Files", "Subpartition", "Region", "Offset")


def print_json(value: object) -> None:
    """Print a value as JSON; signs that would command a terminal are escaped in it."""
    print(_COMMANDING.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, indent=2, ensure_ascii=False)))


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print a text of one or several lines."""
    print(printable(str(text)), file=file, flush=True)


def text_of(value: object) -> str:
    """Return the text of a value; nothing for None."""
    return "" if value is None else str(value)


def print_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns that are empty in all rows are left out."""
    found = [tuple(map(printable_line, row)) for row in rows]
    used = [index for index in range(len(names)) if any(row[index] for row in found)]
    chosen = [tuple(row[index] for index in used) for row in found]
    _printer()([names[index] for index in used], chosen)


def _printer() -> Callable[[Sequence[str], list[tuple[str, ...]]], None]:
    try:
        import rich  # noqa: F401
    except ImportError:
        return _print_plain
    return _print_rich if sys.stdout.isatty() else _print_plain


def _print_plain(names: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (tuple(names), *rows):
        print("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


def _print_rich(names: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))  # names of a user's are no markup
    Console().print(table)
