"""What tells one program from another: operators and the ways between them, not settings nor parallelism."""

import sys

import pytest

from flinkbuf.common import Configuration
from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment
from flinkbuf.runtime.graph.program_identity import ProgramIdentity, text_of_program


def identity(program, parallelism=1, name="counts", text="", **options):
    settings = {key.replace("_", "."): str(value) for key, value in options.items()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    program(env)
    return ProgramIdentity.of(env._stream_graph(name, True), text)


def counted(env, first="a", uid=None, key=True, branches=1):
    stream = env.from_collection(list(range(10))).map(lambda number: number).name(first)
    if uid is not None:
        stream = stream.uid(uid)
    stream = stream.key_by(lambda number: number % 2) if key else stream
    stream = stream.map(lambda number: number + 1).name("b")
    for _ in range(branches):
        stream.print()


def test_parallelism_name_and_settings_make_no_other_program():
    first = identity(counted)
    assert identity(counted, parallelism=4) == first
    assert identity(counted, name="another") == first
    assert identity(counted, pipeline_operator_chaining=False) == first
    assert first.operators.startswith("Source: ")


@pytest.mark.parametrize("change", [{"first": "c"}, {"uid": "u"}, {"key": False}, {"branches": 2}])
def test_each_change_of_operators_or_of_ways_makes_another_program(change):
    assert identity(lambda env: counted(env, **change)).digest != identity(counted).digest


def test_an_operator_with_a_uid_may_be_called_anything():
    first, second = (identity(lambda env, each=each: counted(env, each, uid="u")) for each in ("a", "c"))
    assert first.digest == second.digest


def test_side_outputs_are_told_apart():
    def program(env, tag):
        env.from_collection(list(range(10))).get_side_output(OutputTag(tag)).print()

    assert len({identity(lambda env, each=each: program(env, each)).digest for each in ("x", "y")}) == 2


def test_the_text_of_the_program_counts_where_it_is_given():
    assert identity(counted, text="x").digest != identity(counted, text="y").digest


def test_the_text_of_a_program_is_its_script_and_its_arguments(monkeypatch, tmp_path):
    script = tmp_path / "program.py"
    script.write_text("one")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    monkeypatch.setattr(sys, "argv", [str(script), "a"])
    first = text_of_program()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "elsewhere.py"), "a"])
    assert text_of_program() == first
    monkeypatch.setattr(sys, "argv", [str(script), "b"])
    assert text_of_program() != first
    script.write_text("two")
    monkeypatch.setattr(sys, "argv", [str(script), "a"])
    assert text_of_program() != first


def test_a_command_is_its_own_text_and_a_notebook_has_none(monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "print(1)", "a"])
    assert text_of_program() == '["print(1)", "a"]'
    monkeypatch.setattr(sys, "orig_argv", ["python"])
    assert text_of_program() == ""
