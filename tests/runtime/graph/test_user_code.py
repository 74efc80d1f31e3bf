"""Functions on their way to subtasks."""

import importlib
import pickle
import sys
import threading
import traceback

from flinkbuf.runtime.graph.user_code import pickled, unpickled

PROGRAM = """
def outer(value):
    def inner(divisor):
        return value // divisor
    return inner(0)
"""


def test_a_function_by_value_keeps_the_file_that_its_traceback_shows():
    program = {"__name__": "__main__"}
    exec(compile(PROGRAM, "/home/me/program.py", "exec"), program)
    copy = pickle.loads(pickled(program["outer"]))
    try:
        copy(1)
    except ZeroDivisionError as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
    assert [(each.filename, each.name) for each in frames] == [
        ("/home/me/program.py", "outer"),
        ("/home/me/program.py", "inner"),
    ]


# An import of the package takes until its module, which imports it, is wanted elsewhere.
PACKAGE = """
import time
from {name}.begun import begun
begun.set()
time.sleep(0.2)
from {name}.inner import Thing
"""


def test_unpickling_beside_an_import_of_the_same_package(tmp_path, monkeypatch):
    name = "package_of_test_user_code"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "begun.py").write_text("import threading\nbegun = threading.Event()\n")
    (folder / "inner.py").write_text(f"import {name}\nclass Thing:\n    pass\n")
    (folder / "__init__.py").write_text("from .inner import Thing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = pickled(importlib.import_module(name).Thing)
    for each in [name, f"{name}.inner"]:
        del sys.modules[each]
    (folder / "__init__.py").write_text(PACKAGE.format(name=name))
    importlib.invalidate_caches()
    errors = []

    def import_it():
        try:
            importlib.import_module(name)
        except ImportError as error:
            errors.append(error)

    importing = threading.Thread(target=import_it)
    try:
        importing.start()
        while not hasattr(sys.modules.get(f"{name}.begun"), "begun"):  # it is there before its code has run
            pass
        sys.modules[f"{name}.begun"].begun.wait()
        thing = unpickled(data)
        importing.join()
        assert (errors, thing) == ([], sys.modules[name].Thing)
    finally:
        for each in [each for each in sys.modules if each.partition(".")[0] == name]:
            del sys.modules[each]
