"""What a beginner gets to see: each mistake as a script, its first line of error, its own line, and what to do.

Of each script the last frame that is shown is the script's own, and no frame is ours.
"""

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "support" / "many_scripts.py"

HEAD = """
from flinkbuf.common import *
from flinkbuf.datastream import *
from flinkbuf.datastream.state import *
from flinkbuf.datastream.window import *
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
numbers = env.from_collection([1, 2, 3])
pairs = env.from_collection([("a", 1), ("b", 2)])
"""


@dataclass(frozen=True)
class Mistake:
    """A script without its head; how the line of its error begins; and words that say what is wrong or what to do."""

    script: str
    error: str
    words: tuple[str, ...] = ()
    target: str = "embedded"


def mistake(script, error, *words, target="embedded"):
    return Mistake(textwrap.dedent(script).strip(), error, words, target)


MISTAKES = {
    # What is no function, or one of another kind.
    "map is given a number": mistake(
        "numbers.map(3)", "TypeError: The input must be a MapFunction or a callable", "int 3"
    ),
    "map is given the result of a call": mistake("numbers.map(print(1))", "TypeError: The input must be a MapFunction"),
    "filter is given a MapFunction": mistake(
        "class F(MapFunction):\n    def map(self, n): return n\nnumbers.filter(F())",
        "TypeError: The input must be a Filter",
    ),
    "process is given a function": mistake("numbers.process(lambda n: n)", "TypeError: ", "ProcessFunction"),
    "reduce without key_by": mistake("numbers.reduce(lambda a, b: a + b)", "AttributeError: ", "key_by"),
    "sum without key_by": mistake("numbers.sum(0)", "AttributeError: ", "key_by"),
    "window without key_by": mistake(
        "numbers.window(TumblingEventTimeWindows.of(Time.seconds(1)))", "AttributeError: ", "key_by"
    ),
    "a misspelt method": mistake("numbers.flatmap(str)", "AttributeError: ", "flat_map"),
    "a function with too few parameters": mistake(
        "numbers.map(lambda: 1).print()\nenv.execute()", "TypeError: ", "0 positional arguments but 1 was given"
    ),
    "flat_map that returns a number": mistake(
        "numbers.flat_map(lambda n: n).print()\nenv.execute()", "TypeError: ", "iterable", "operator 'FlatMap'"
    ),
    # Types.
    "a declared type that the value is not of": mistake(
        "numbers.map(lambda n: str(n), Types.INT()).print()\nenv.execute()",
        "TypeError: value: expected INT, got '1' (str)",
        "operator 'Map'",
        "with the record 1",
    ),
    "a side output of another type": mistake(
        """
        late = OutputTag("late", Types.INT())
        class Split(ProcessFunction):
            def process_element(self, value, ctx):
                yield late, "not a number"
        split = numbers.process(Split()).name("split")
        split.get_side_output(late).print()
        env.execute()
        """,
        "TypeError: value: expected INT, got 'not a number' (str)",
        "operator 'split, side output late'",
    ),
    "a type that is none": mistake("numbers.map(str, 'strng')", "ValueError: ", "strng"),
    "a class instead of a type": mistake("numbers.map(str, Types.STRING)", "TypeError: ", "Types.STRING"),
    "a Python class as a type": mistake("numbers.map(str, str)", "TypeError: ", "str"),
    "a union of two types": mistake(
        "numbers.map(str, Types.STRING()).union(numbers.map(int, Types.INT()))",
        "ValueError: Cannot union streams of different types",
        "declare the same output_type for both",
    ),
    "a list as a declared row": mistake(
        "pairs.map(list, Types.ROW([Types.STRING(), Types.STRING()])).print()\nenv.execute()", "TypeError: ", "Map"
    ),
    # Execution.
    "no execute": mistake("numbers.print()", "", "line 10: nothing ran this stream program: call env.execute()"),
    "execute without a sink": mistake("env.execute()", "ValueError: No operators defined", "Cannot execute"),
    "execute twice": mistake("numbers.print()\nenv.execute()\nenv.execute()", "ValueError: "),
    "2,000 subtasks on this machine": mistake(
        "env.set_parallelism(2000)\nnumbers.rebalance().map(str).print()\nenv.execute('wide')",
        "ValueError: job 'wide' needs 2,000 slots, each a process, and this machine has ",
        "set a parallelism of at most ",
        "slotmanager.number-of-slots.max to 2000",
        target="local",
    ),
    "a parallelism of 0": mistake("env.set_parallelism(0)", "ValueError: ", "0"),
    "a parallelism as a text": mistake("env.set_parallelism('4')", "TypeError: "),
    "a lock in a function": mistake(
        "import threading\nlock = threading.Lock()\nnumbers.map(lambda n: lock and n).print()\nenv.execute()",
        "TypeError: operator 'Map': global variable 'lock'",
        "make what cannot be copied in open() instead",
        target="local",
    ),
    "a function that fails": mistake(
        "numbers.map(lambda n: 1 // (n - 2)).name('thirds').print()\nenv.execute()",
        "ZeroDivisionError: integer division or modulo by zero",
        "in operator 'thirds' of task ",
        "with the record 2",
        "The job was started here:",
    ),
    "a function that fails in a process": mistake(
        "numbers.map(lambda n: 1 // (n - 2)).name('thirds').print()\nenv.execute()",
        "ZeroDivisionError: integer division or modulo by zero",
        "in operator 'thirds' of task ",
        "with the record 2",
        "The job was started here:",
        target="local",
    ),
    "open that fails": mistake(
        "class F(MapFunction):\n"
        "    def open(self, context): raise ConnectionError('no service')\n"
        "    def map(self, n): return n\n"
        "numbers.map(F()).print()\nenv.execute()",
        "ConnectionError: no service",
        "in open()",
    ),
    "a source that fails": mistake(
        "def lines():\n    yield 1\n    raise OSError('gone')\nenv.add_source(lines).print()\nenv.execute()",
        "OSError: gone",
    ),
    "a sink that fails": mistake(
        "def write(n): raise OSError('full')\nnumbers.add_sink(write)\nenv.execute()", "OSError: full", "Sink"
    ),
    # Keys, state, time.
    "key_by a name that records have not": mistake(
        "pairs.key_by(lambda pair: pair.name).sum(1).print()\nenv.execute()",
        "AttributeError: 'tuple' object has no attribute 'name'",
        "with the record ('a', 1)",
    ),
    "key_by a text": mistake("pairs.key_by('name')", "TypeError: ", "callable"),
    "sum of what cannot be added": mistake(
        "pairs.map(lambda p: (0, None)).key_by(lambda p: p[0]).sum(1).print()\nenv.execute()", "TypeError: "
    ),
    "state outside of a key": mistake(
        """
        class F(ProcessFunction):
            def open(self, context):
                self.seen = context.get_state(ValueStateDescriptor("seen", Types.INT()))
            def process_element(self, value, ctx):
                yield self.seen.value()
        numbers.process(F()).print()
        env.execute()
        """,
        "",
        "key_by",
    ),
    "state of another type": mistake(
        """
        class F(KeyedProcessFunction):
            def open(self, context):
                self.seen = context.get_state(ValueStateDescriptor("seen", Types.INT()))
            def process_element(self, value, ctx):
                self.seen.update(1.5)
        numbers.key_by(lambda n: n).process(F()).print()
        env.execute()
        """,
        "TypeError: ",
        "seen",
        "with the record 1",
    ),
    "a descriptor without a type": mistake("ValueStateDescriptor('seen')", "TypeError: ", "type_info"),
    "a timer without a time": mistake(
        """
        class F(KeyedProcessFunction):
            def process_element(self, value, ctx):
                ctx.timer_service().register_event_time_timer(None)
        numbers.key_by(lambda n: n).process(F()).print()
        env.execute()
        """,
        "TypeError: ",
        "in operator",
    ),
    "a window of a number": mistake("TumblingEventTimeWindows.of(5)", ""),
    "a window without a function": mistake(
        "pairs.key_by(lambda p: p[0]).window(TumblingEventTimeWindows.of(Time.seconds(1))).print()",
        "AttributeError: ",
    ),
    "event time without timestamps": mistake(
        "pairs.key_by(lambda p: p[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))"
        ".reduce(lambda a, b: a).print()\nenv.execute()",
        "",
        "assign_timestamps_and_watermarks",
    ),
    "a strategy that was not called": mistake(
        "numbers.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks)", "TypeError: ", "WatermarkStrategy"
    ),
    "from_source without a strategy": mistake(
        "env.from_source([1], None, 'x')", "TypeError: a WatermarkStrategy is needed"
    ),
    # Settings.
    "a misspelt key": mistake(
        "env.configure(Configuration().set_string('paralelism.default', '2'))\nnumbers.print()\nenv.execute()",
        "",
        "no effect in flinkbuf: paralelism.default (did you mean parallelism.default?)",
    ),
    "a time that is none": mistake(
        "env.configure(Configuration().set_string('heartbeat.interval', 'soon'))",
        "ValueError: Could not parse value 'soon' for key 'heartbeat.interval'",
    ),
    "a target that is none": mistake(
        "env.configure(Configuration().set_string('execution.target', 'yarn'))", "ValueError: ", "local"
    ),
    "a jar": mistake("env.add_jars('file:///x.jar')", "", "jars have no effect in flinkbuf", "Python classes"),
    "a file that is not there": mistake("env.add_python_file('nowhere.py')", "FileNotFoundError: ", "nowhere.py"),
    "a savepoint that is not there": mistake(
        "env.configure(Configuration().set_string('execution.state-recovery.path', '/nowhere'))\nnumbers.print()\n"
        "env.execute()",
        "FileNotFoundError: ",
        "/nowhere",
    ),
    "streams of two environments": mistake(
        "numbers.union(StreamExecutionEnvironment.get_execution_environment().from_collection([1]))",
        "ValueError: Cannot union streams of different environments",
    ),
    # Spark's doors, before there is a Spark.
    "from_rdd of a list": mistake("env.from_rdd([1, 2])", "TypeError: ", "RDD"),
    "exchange of a list": mistake("import flinkbuf as fb\nfb.exchange([1, 2], 0)", "TypeError: ", "RDD or a DataFrame"),
    "async_map of a list": mistake(
        "import flinkbuf as fb\nfb.async_map([1, 2], str)",
        "TypeError: async_map() takes an RDD or a DataFrame, got builtins.list",
    ),
    "write_buffers of what does not fit": mistake(
        "import flinkbuf as fb\nlist(fb.write_buffers([('a', 'b')], 'x string, y int', 2, fb.by_key('x')))",
        "TypeError: ",
        "field 'y': expected INT, got 'b' (str)",
    ),
    "a key that is no field": mistake(
        "import flinkbuf as fb\nlist(fb.write_buffers([('a', 1)], 'x string, y int', 2, fb.by_key('z')))", "", "'z'"
    ),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each script says and how it ends, by its name; all are run one after the other."""
    answers = {}
    for target in ("embedded", "local"):
        folder = tmp_path_factory.mktemp(target)
        names = {
            f"m{number:02}.py": name for number, (name, each) in enumerate(MISTAKES.items()) if each.target == target
        }
        for file, name in names.items():
            (folder / file).write_text(f"{HEAD}\n{MISTAKES[name].script}\n", "utf-8")
        environment = {**os.environ, "FLINKBUF_PROPERTIES": f"execution.target: {target}"}
        done = subprocess.run(
            [sys.executable, str(SCRIPTS), str(folder)], env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        for file, name in names.items():
            answers[name] = folder / file, (folder / f"{file}.out").read_text("utf-8")
    return answers


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_where_it_was_made_and_with_what_to_do(name, said):
    path, text = said[name]
    each = MISTAKES[name]
    if each.error:
        errors = [line for line in text.splitlines() if re.match(r"\w+(Error|Exception): ", line)]
        assert len(errors) == 1 and errors[0].startswith(each.error), text
        frames = re.findall(r'^  File "(.*?)", line', text, re.MULTILINE)
        assert frames and set(frames) == {str(path)}, text
    for words in each.words:
        assert words in text.replace("\n", " "), text
    assert text.strip(), "nothing is said"


def test_a_program_that_was_executed_is_not_called_forgotten(tmp_path):
    (tmp_path / "runs.py").write_text(f"{HEAD}\nnumbers.print()\nenv.execute()\nnumbers.print()\nenv.explain()\n")
    (tmp_path / "fails.py").write_text(f"{HEAD}\nnumbers.print()\n1 // 0\n")
    environment = {**os.environ, "FLINKBUF_PROPERTIES": "execution.target: embedded"}
    subprocess.run([sys.executable, str(SCRIPTS), str(tmp_path)], env=environment, check=True, timeout=60)
    for name in ("runs", "fails"):
        assert "nothing ran" not in (tmp_path / f"{name}.py.out").read_text()
