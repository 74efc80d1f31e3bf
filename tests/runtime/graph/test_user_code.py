"""Functions on their way to subtasks."""

import pickle
import traceback

from flinkbuf.runtime.graph.user_code import pickled

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
