"""Names of arguments, attributes and classes: one word for one thing, and each number says what it counts."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "flinkbuf"
# The demo's `delay` is that of a flight.
FILES = [
    path for path in sorted(PACKAGE.rglob("*.py*")) if path.suffix in (".py", ".pyi") and path.parent.name != "demo"
]

# Counts are called …_count. These are as a PySpark or a PyFlink user knows them, or an option of Flink's.
KNOWN_BY_OTHERS = {"num_partitions", "num_channels", "num_segments"}
TIMES = re.compile(r"(?:^|_)(?:timeout|delay|interval|backoff|period|span|patience)$")
# Times are whole milliseconds, …_ms, or …_s. What makes asynchronous calls takes seconds, as asyncio itself does.
IN_SECONDS = ("async_io", "spark/async_map", "spark/exchange")
# These have PyFlink's argument names, whatever they count.
PYFLINKS = (
    "common",
    "datastream",
    "streaming/chain/async_functions.py",
    "streaming/time/watermark_strategy.py",
    "streaming/windows",
)
FLAGS = {"priority", "finished", "closed", "released", "available", "empty"}


def names_in(tree):
    """Arguments, annotated attributes and properties of a file, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.lineno
        elif isinstance(node, ast.FunctionDef) and any(
            isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list
        ):
            yield node.name, node.lineno


def wrong_names(text, takes_seconds):
    for name, line in names_in(ast.parse(text)):
        bare = name.lstrip("_")
        if bare.startswith("num_") and bare not in KNOWN_BY_OTHERS:
            yield line, name, "a count is called …_count"
        elif bare in FLAGS:
            yield line, name, "a flag is called is_…"
        elif TIMES.search(bare) and not takes_seconds:
            yield line, name, "a time says its unit: …_ms or …_s"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_names_follow_the_glossary(path):
    takes_seconds = path.relative_to(PACKAGE).as_posix().startswith(IN_SECONDS + PYFLINKS)
    assert list(wrong_names(path.read_text(), takes_seconds)) == []


def test_a_wrong_name_would_be_found():
    text = "class A:\n  num_tasks: int\n  def f(self, priority, timeout, _delay, num_segments): ...\n"
    text += "  @property\n  def finished(self): ...\n"
    assert [name for _, name, _ in wrong_names(text, False)] == [
        "num_tasks",
        "finished",
        "priority",
        "timeout",
        "_delay",
    ]
    assert [name for _, name, _ in wrong_names(text, True)] == ["num_tasks", "finished", "priority"]


# PyFlink calls what users derive from so; beside them, what a signature names elsewhere.
TWICE = {"Function", "Partitioner", "Histogram", "CheckpointStorage"}


def test_no_two_classes_for_users_have_the_same_name():
    """But for a class of the core and its face, which is one thing in two layers; and PyFlink's names for types."""
    names = Counter(
        node.name
        for path in FILES
        if "_core" not in path.parts and path.relative_to(PACKAGE).as_posix() != "common/typeinfo.py"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1 and name not in TWICE] == []
