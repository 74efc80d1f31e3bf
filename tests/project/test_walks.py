"""The walks through the code in docs/how-it-works.md: each step is there, and none goes back without a reason."""

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-it-works.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not part of this installation")

MOST_STEPS = {"One record": 15, "One deployment": 20, "One checkpoint": 20}

# Files that a walk comes back to, with the reason: take one out when the walk does so no more.
COMES_BACK = {
    "One deployment": {"runtime/master/job_master.py": "it hears of the start, of task managers and of tasks' ends"},
    "One checkpoint": {
        "runtime/checkpoint/checkpoint_coordinator.py": "it hears of the time, of tasks' answers and of the storage's"
    },
}

# An item of a list; one that is written in another way has neither file nor function.
STEP = re.compile(r"^(\d+)\. (?:`(\S+)` `(\S+)`: )?", re.MULTILINE)
C_FUNCTION = r"^[a-z][^;{{}}=\n]*\b{name}\([^;{{}}]*\) \{{"
PYTHON_NAME = r"^{indent}(?:(?:async )?def|cp?def\b[^(=\n]*|(?:cdef )?class) {name}\b"
PYTHON_CLASS = r"^(?:cdef )?class {name}\b.*?(?=^\S|\Z)"


def walks_in(page: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return the steps of each walk, by its title: number, file and function."""
    section = page.partition("\n## Three walks\n")[2].partition("\n## ")[0]
    titles_and_texts = (part.partition("\n") for part in section.split("\n### ")[1:])
    return {title: STEP.findall(text) for title, _, text in titles_and_texts}


def is_defined(file: str, name: str) -> bool:
    """Return whether a function, or a method of a class, is defined in a file of the project."""
    path = ROOT / file if file.startswith("csrc/") else ROOT / "flinkbuf" / file
    if not file or not path.is_file():
        return False
    text = path.read_text("utf-8")
    if path.suffix in (".c", ".h"):
        return re.search(C_FUNCTION.format(name=name), text, re.MULTILINE) is not None
    owner, _, name = name.rpartition(".")
    if owner:
        found = re.search(PYTHON_CLASS.format(name=owner), text, re.MULTILINE | re.DOTALL)
        text = "" if found is None else found.group()
    return re.search(PYTHON_NAME.format(indent="    " if owner else "", name=name), text, re.MULTILINE) is not None


def wrong_in(steps: list[tuple[str, str, str]]) -> list[str]:
    """Return the numbers of the steps that name what is not there."""
    return [number for number, file, name in steps if not is_defined(file, name)]


def comes_back_to(steps: list[tuple[str, str, str]]) -> set[str]:
    """Return the files that a walk leaves and enters again."""
    visits = Counter(file for file, _ in groupby(file for _, file, _ in steps))
    return {file for file, count in visits.items() if count > 1}


def steps_of(walk: str) -> list[tuple[str, str, str]]:
    return walks_in(PAGE.read_text("utf-8"))[walk]


def test_the_page_has_these_walks():
    assert list(walks_in(PAGE.read_text("utf-8"))) == list(MOST_STEPS)


@pytest.mark.parametrize("walk", MOST_STEPS)
def test_a_walk_is_short(walk):
    numbers = [int(number) for number, _, _ in steps_of(walk)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 0 < len(numbers) <= MOST_STEPS[walk]


@pytest.mark.parametrize("walk", MOST_STEPS)
def test_each_step_of_a_walk_names_a_function_that_is_there(walk):
    assert wrong_in(steps_of(walk)) == []


@pytest.mark.parametrize("walk", MOST_STEPS)
def test_a_walk_comes_back_to_no_file_without_a_reason(walk):
    assert comes_back_to(steps_of(walk)) == set(COMES_BACK.get(walk, ()))


@pytest.mark.parametrize(
    "step",
    [
        "`csrc/io/connection.c` `fb_connection_send_nothing`: ",
        "`csrc/wire/partition_server.c` `fb_connection_send`: ",  # it is only called there
        "`csrc/io/no_such_file.c` `write_ranges`: ",
        "`_core/operators/function_operator.pyx` `FilterOperator.call`: ",  # of another class of the file
        "`_core/operators/function_operator.pyx` `NoOperator.process_element`: ",
        "`streaming/task/task.py` `run`: ",  # it is a method
        "`streaming/task/task.py`: ",
        "The task runs.",
    ],
)
def test_a_step_that_names_what_is_not_there_would_be_found(step):
    page = f"## Three walks\n\n### A walk\n\n1. `streaming/task/task.py` `Task.run`: It runs.\n2. {step}It runs.\n"
    steps = walks_in(f"\n{page}\n## Bytes\n\n1. of another section\n")["A walk"]
    assert [number for number, _, _ in steps] == ["1", "2"]
    assert wrong_in(steps) == ["2"]


def test_a_walk_that_comes_back_would_be_found():
    steps = [(str(number), file, "f") for number, file in enumerate(("a.py", "a.py", "b.py", "a.py"), 1)]
    assert comes_back_to(steps) == {"a.py"}
    assert comes_back_to(steps[:3]) == set()
