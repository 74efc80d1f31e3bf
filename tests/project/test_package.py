"""What `import flinkbuf` gives, and what it leaves alone."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flinkbuf as fb
from flinkbuf._version import build_version, sources_id

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

# What importing it must not bring: libraries that are large, and whatever could start a thread or an event loop.
LARGE = ["numpy", "pyspark", "pyarrow", "pandas", "matplotlib", "rich", "asyncio", "ssl", "logging", "dataclasses"]


def in_a_new_interpreter(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def cpu_seconds(code):
    """What a new interpreter takes for `code`, of the processor; the least of several runs."""
    script = f"import time\nbefore = time.process_time()\n{code}\nprint(time.process_time() - before)"
    return min(float(in_a_new_interpreter(script)) for _ in range(5))


# Packages that bring names lazily: the door, and the subjects behind it. Events and errors are modules.
LAZY = ("flinkbuf", "flinkbuf.async_io", "flinkbuf.network", "flinkbuf.spark", "flinkbuf.types")
BY_SUBJECT = {subject: importlib.import_module(f"flinkbuf.{subject}") for subject in set(fb._SUBJECT_OF.values())}
SUBJECT_OF = fb._SUBJECT_OF | {
    name: subject for subject, module in BY_SUBJECT.items() for name in getattr(module, "__all__", ())
}


def names_in_the_stub(package):
    """The public names as type checkers see them: those that are imported, by module, and `__all__`."""
    tree = ast.parse((ROOT / package.replace(".", "/") / "__init__.pyi").read_text())
    imported = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    listed = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    return imported, ast.literal_eval(listed)


def public_names_of(module):
    """What a module lists in `__all__`; without one, the classes and functions that it defines for others."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return set(loaded.__all__)
    tree = ast.parse(Path(loaded.__file__).read_text())
    defined = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return {name for name in defined if not name.startswith("_")}


def test_every_public_name_is_there_and_is_the_one_of_its_module():
    assert fb.__all__ == sorted(set(fb.__all__))
    for name in fb.__all__:
        home = fb._MODULE_OF.get(name, "flinkbuf._version")
        assert getattr(fb, name) is getattr(importlib.import_module(home), name) is not None


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_the_same_names_from_the_same_modules(package):
    imported, listed = names_in_the_stub(package)
    module = importlib.import_module(package)
    more = {"__version__": "flinkbuf._version", **dict.fromkeys(fb._SUBJECTS, "flinkbuf")} if module is fb else {}
    assert imported == {**module._MODULE_OF, **more}
    assert listed == module.__all__
    for name in module.__all__:
        assert name in dir(module) and getattr(module, name) is not None


def test_a_subject_comes_with_the_package():
    found = in_a_new_interpreter(
        "import flinkbuf as fb; print(fb.network.IOManager.__name__, fb.events.EndOfData.__name__)"
    )
    assert found == "IOManager EndOfData"


def test_the_door_has_about_twenty_five_names():
    """Who reads them all finds what he needs; the rest stands by subject."""
    assert 20 <= len(fb.__all__) <= 30


def test_no_door_takes_more_than_twelve_parameters():
    """What few calls say goes into an object of options, so that a signature can be read."""
    doors = [door for door in (getattr(fb, name) for name in fb.__all__) if inspect.isfunction(door)]
    assert fb.async_map in doors and fb.exchange in doors
    assert not {door.__name__ for door in doors if len(inspect.signature(door).parameters) > 12}


@pytest.mark.parametrize("name", fb._SUBJECT_OF)
def test_a_name_that_has_moved_says_where_it_is(name):
    subject = fb._SUBJECT_OF[name]
    with pytest.warns(DeprecationWarning, match=rf"flinkbuf\.{name} is flinkbuf\.{subject}\.{name}") as warned:
        old = getattr(fb, name)
    assert old is getattr(BY_SUBJECT[subject], name)
    assert warned[0].filename == __file__, "the line of the program"


def test_a_star_import_gives_all_names():
    given = {}
    exec("from flinkbuf import *", given)
    assert set(fb.__all__) <= given.keys()
    assert set(fb.__all__) <= set(dir(fb))


ONLY_THE_BASE = """
import sys

class OnlyTheBase:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"flinkbuf", "numpy", "cloudpickle"} | sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, OnlyTheBase())
"""


def test_every_name_can_be_had_without_the_libraries_of_the_extras():
    code = ONLY_THE_BASE + "import flinkbuf\nfrom flinkbuf import *\nprint(set(flinkbuf.__all__) <= set(dir()))"
    assert in_a_new_interpreter(code) == "True"


def test_the_base_of_that_test_has_nothing_else():
    code = ONLY_THE_BASE + "try: import typing_extensions\nexcept ModuleNotFoundError as error: print(error)"
    assert in_a_new_interpreter(code) == "No module named 'typing_extensions'"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'flinkbuf' has no attribute 'exchnage'"):
        fb.exchnage
    with pytest.raises(ImportError, match="exchnage"):
        exec("from flinkbuf import exchnage")


# Of these modules users get every class or function, or the test says which they do not need by name.
WHOLE_MODULES = {
    "flinkbuf.network.events": {"event_from_bytes"},  # a reader does it: RecordReader(..., events=True)
    "flinkbuf.async_io.retry": {"RetryOptions", "PyFlinkRetry", "as_retry"},  # what the public ones are made of
    "flinkbuf.types.values": {"row_class", "row_classes"},  # `Row` makes its classes itself
    "flinkbuf.network.buffer": set(),
}


@pytest.mark.parametrize("module", WHOLE_MODULES)
def test_what_such_a_module_defines_for_users_is_public(module):
    homes = [each._MODULE_OF for each in map(importlib.import_module, LAZY)]
    public = {name for home_of in homes for name, home in home_of.items() if home == module}
    public |= set(fb.events.__all__) if module == "flinkbuf.network.events" else set()
    assert public_names_of(module) - WHOLE_MODULES[module] <= public


def names_of_the_reference(folder):
    """What pages of the reference show from the docstrings: their lines ``::: flinkbuf.NAME``, or with its module."""
    pages = "\n".join(page.read_text() for page in sorted(folder.rglob("*.md")))
    shown = re.findall(r"^::: (flinkbuf(?:\.\w+)*)\.(\w+)\s*$", pages, re.MULTILINE)
    return {
        name for module, name in shown if name in fb.__all__ and module in ("flinkbuf", fb._MODULE_OF.get(name))
    } | {name for module, name in shown if module == f"flinkbuf.{SUBJECT_OF.get(name)}"}


def test_the_reference_shows_each_public_name(tmp_path):
    (tmp_path / "page.md").write_text("# Page\n\n::: flinkbuf.exchange\n    options:\n::: flinkbuf.Row\n")
    (tmp_path / "more.md").write_text("::: flinkbuf.events.EndOfData\n::: flinkbuf.metrics.Counter\n")
    assert names_of_the_reference(tmp_path) == {"exchange", "Row", "EndOfData"}
    if not REFERENCE.exists():
        pytest.skip("there is no reference: docs/reference is not in this tree")
    assert names_of_the_reference(REFERENCE) == {*fb.__all__, *SUBJECT_OF} - {"__version__"}


def test_importing_it_imports_no_large_library_and_starts_nothing():
    found = in_a_new_interpreter(
        "import sys, threading; before = set(sys.modules); import flinkbuf; "
        f"print([name for name in {LARGE} if name in set(sys.modules) - before], threading.active_count())"
    )
    assert found == "[] 1"


def test_importing_it_is_quick():
    assert cpu_seconds("import flinkbuf") < 0.05


def test_the_clock_of_that_test_counts_what_an_import_takes():
    assert cpu_seconds("for _ in range(3_000_000): pass") > cpu_seconds("import flinkbuf") > 0


def test_records_need_no_numpy():
    code = (
        "import sys, flinkbuf as fb; t = fb.as_type('a bigint, s string'); "
        "buffers = [b for _, b in fb.write_buffers([(1, 'x')], t, 2, fb.by_key('a'))]; "
        "print(list(fb.read_buffers(buffers, t)), 'numpy' in sys.modules)"
    )
    assert in_a_new_interpreter(code) == "[Row(a=1, s='x')] False"


def test_an_installation_is_small():
    """Debug symbols, and Cython's own code once for each module, would make five times as much of it."""
    package = Path(fb.__file__).parent
    installed = [path for path in package.rglob("*") if path.suffix in (".so", ".py", ".pyi", ".pyx", ".pxd", ".h")]
    assert sum(path.stat().st_size for path in installed) < 24_000_000


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a repository knows its files")
def test_the_source_distribution_has_all_that_its_tests_need(monkeypatch):
    filelist = pytest.importorskip("setuptools._distutils.filelist")
    monkeypatch.chdir(ROOT)
    packed = filelist.FileList()
    for line in Path("MANIFEST.in").read_text().splitlines():
        packed.process_template_line(line)
    kept = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    left_out = set(kept) - set(packed.files) - {".gitignore", ".ci/run", "MANIFEST.in", "pyproject.toml", "setup.py"}
    assert not left_out, "give MANIFEST.in a line for these; setuptools packs the last three by itself"


def test_builds_of_one_version_are_told_apart_by_their_sources(tmp_path):
    for tree in ("one", "same", "other"):
        for path, text in (
            ("flinkbuf/jobs/job.py", "x = 1"),
            ("flinkbuf/_build.py", tree),
            ("csrc/io/reactor.c", "int x;"),
        ):
            (tmp_path / tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / tree / path).write_text(text)
    (tmp_path / "other" / "csrc" / "io" / "reactor.c").write_text("int y;")
    one, same, other = (sources_id(tmp_path / tree) for tree in ("one", "same", "other"))
    assert one == same != other and re.fullmatch("[0-9a-f]{8}", one)
    (tmp_path / "same" / "flinkbuf" / "jobs" / "job.py").rename(tmp_path / "same" / "flinkbuf" / "job.py")
    assert sources_id(tmp_path / "same") != one
    assert re.fullmatch(re.escape(fb.__version__) + r"\+[0-9a-f]{8}", build_version())
