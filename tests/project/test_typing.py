"""What type checkers make of a user's program: nothing wrong in a right one, each mistake in a wrong one."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flinkbuf as fb

ROOT = Path(__file__).parents[2]
HOME = Path(fb.__file__).parents[1]  # an editable install is nothing that checkers find by themselves
IS_INSTALLED = HOME.name == "site-packages"
PROGRAMS = Path(__file__).parent / "typing"


def mypy(program, folder):
    """Lines of `program` that ``mypy --strict`` finds something wrong in, with what it says."""
    (folder / "mypy.ini").write_text("[mypy]\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", folder / "mypy.ini"]
    cache = ["--cache-dir", ROOT / ".mypy_cache" / "user_programs"]
    run = subprocess.run(
        [*command, *cache, "--no-error-summary", "--follow-imports=silent", program],
        cwd=folder,
        env=os.environ if IS_INSTALLED else {**os.environ, "MYPYPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = [re.match(r"(.*?):(\d+): error: (.*)", line) for line in run.stdout.splitlines()]
    return [(Path(match[1]).name, int(match[2]), match[3]) for match in found if match]


def pyright(program, folder):
    """The same of pyright in its strict mode; basedpyright is pyright with node in its wheel."""
    pytest.importorskip("basedpyright", reason="pip install basedpyright")
    settings = {"typeCheckingMode": "strict", "include": [str(program)], "reportUnusedExpression": False}
    settings["extraPaths"] = [] if IS_INSTALLED else [str(HOME)]
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run([*command, "-p", folder], cwd=folder, capture_output=True, text=True, timeout=300)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = [each for each in json.loads(run.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return [(Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["message"]) for each in found]


pytestmark = pytest.mark.long  # each run reads the package, and what it uses
checkers = pytest.mark.parametrize("check", [mypy, pyright], ids=["mypy", "pyright"])


@checkers
def test_a_right_program_is_accepted_with_the_types_it_says(check, tmp_path):
    assert check(PROGRAMS / "accepted.py", tmp_path) == []


@checkers
def test_each_mistake_of_a_wrong_program_is_found_and_nothing_else(check, tmp_path):
    program = PROGRAMS / "refused.py"
    wrong = {number for number, line in enumerate(program.read_text().splitlines(), start=1) if "# wrong: " in line}
    found = check(program, tmp_path)
    assert {number for _, number, _ in found} == wrong, found
    assert {name for name, _, _ in found} == {"refused.py"}


def test_type_checkers_know_every_option_of_async_map():
    """The overloads take their options from two classes, which must not forget one."""
    tree = ast.parse((ROOT / "flinkbuf" / "spark" / "async_map" / "async_map.py").read_text())
    options = {
        field.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in ("CallOptions", "AllOptions")
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    taken = inspect.signature(fb.async_map).parameters.values()
    assert options == {each.name for each in taken if each.kind is each.KEYWORD_ONLY} - {"schema"}
