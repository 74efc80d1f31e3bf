"""First lines of docstrings: each says what is returned or done, and names it."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "flinkbuf"
FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx"))

# A line that begins like this cannot be understood without the code around it.
RIDDLE = re.compile(r"(?:Those|There is none|Whoever|Nobody|Somebody)\b|It[;,]")
# The first line of a docstring, behind the `def` or `class` that it is of, or at the beginning of a file.
FIRST_LINE = re.compile(r'(?:\A|:[ \t]*(?:#.*)?\n)\s*r?"""(.*?)(?:"""|\n|\Z)')


def riddles_in(text: str) -> list[str]:
    return [line for line in FIRST_LINE.findall(text) if RIDDLE.match(line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_first_lines_of_docstrings_are_no_riddles(path):
    assert riddles_in(path.read_text()) == []


@pytest.mark.parametrize(
    "first", ["Those of one job.", "It; empty if there is none.", "It, or None.", "Nobody measures."]
)
def test_a_riddle_is_found_in_a_function_a_class_and_a_file(first):
    for text in (
        f'"""{first}"""\n',
        f'class A:\n    """{first}\n\n    More.\n    """\n',
        f'def f(\n    a: int,\n) -> None:  # why\n    r"""{first}"""\n',
        f'cdef int f(int a) except -1:\n    """{first}"""\n',
    ):
        assert riddles_in(text) == [first]


def test_the_same_words_further_on_are_no_riddle():
    assert riddles_in('def f():\n    """Return the path.\n\n    Those of one job; nobody reads it.\n    """\n') == []
