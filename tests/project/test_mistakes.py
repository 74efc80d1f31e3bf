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

SCRIPTS = Path(__file__).parents[1] / "support" / "programs" / "many_scripts.py"

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
    # Functions, and streams that want others.
    "a class where an object is needed": mistake(
        """
        class F(MapFunction):
            def map(self, n): return n
        numbers.map(F)
        """,
        "TypeError: F is a class, and an object of it is needed: F(...)",
    ),
    "process is given a class": mistake(
        """
        class F(ProcessFunction):
            def process_element(self, value, ctx): yield value
        numbers.process(F)
        """,
        "TypeError: F is a class, and an object of it is needed",
    ),
    "a coroutine function as a map": mistake(
        "async def look_up(n): return n\nnumbers.map(look_up)",
        "TypeError: look_up is a coroutine function",
        "AsyncDataStream",
    ),
    "a generator function as a map": mistake(
        """
        def twice(n):
            yield n
            yield n
        numbers.map(twice)
        """,
        "TypeError: twice yields",
        "use flat_map",
    ),
    "filter is given a number": mistake(
        "numbers.filter(3)",
        "TypeError: The input must be a FilterFunction or a callable",
        "int 3",
    ),
    "flat_map is given a MapFunction": mistake(
        """
        class F(MapFunction):
            def map(self, n): return n
        numbers.flat_map(F())
        """,
        "TypeError: The input must be a FlatMapFunction",
    ),
    "a reduce of one parameter": mistake(
        "pairs.key_by(lambda p: 0).reduce(lambda a: a).print()\nenv.execute()",
        "TypeError: <lambda>() takes 1 positional argument but 2 were given",
        "in operator 'Reduce'",
    ),
    "a function class without its method": mistake(
        """
        class F(MapFunction):
            def mapp(self, n): return n
        numbers.map(F())
        """,
        "TypeError: Can't instantiate abstract class F",
        "map",
    ),
    "process_element that returns a number": mistake(
        """
        class F(ProcessFunction):
            def process_element(self, value, ctx): return 5
        numbers.process(F()).print()
        env.execute()
        """,
        "TypeError: process_element() must return an iterable of results or None, or yield them",
        "it returned int, 5",
    ),
    "a name that there is not": mistake(
        "numbers.map(lambda n: factor * n).print()\nenv.execute()",
        "NameError: name 'factor' is not defined",
        "with the record 1",
    ),
    "a field that there is not": mistake(
        "pairs.map(lambda p: p[2]).print()\nenv.execute()",
        "IndexError: tuple index out of range",
        "with the record ('a', 1)",
    ),
    "a key that a dict has not": mistake(
        "numbers.map(lambda n: {'n': n}).map(lambda d: d['m']).print()\nenv.execute()",
        "KeyError: 'm'",
        "with the record {'n': 1}",
    ),
    "aggregate of a lambda": mistake(
        "pairs.key_by(lambda p: p[0]).count_window(2).aggregate(lambda a, b: a)",
        "TypeError: The input must be a flinkbuf.datastream.functions.AggregateFunction",
    ),
    "a connected map of a lambda": mistake(
        "numbers.connect(pairs).map(lambda n: n)",
        "TypeError: The input function must be a CoMapFunction",
    ),
    "a keyed co-process without keys": mistake(
        """
        class F(KeyedCoProcessFunction):
            def process_element1(self, value, ctx): yield value
            def process_element2(self, value, ctx): yield value
        numbers.connect(pairs).process(F())
        """,
        "TypeError: a KeyedCoProcessFunction needs both streams keyed",
        "call key_by",
    ),
    "a keyed process without keys": mistake(
        """
        class F(KeyedProcessFunction):
            def process_element(self, value, ctx): yield value
        numbers.process(F())
        """,
        "TypeError: a KeyedProcessFunction needs a keyed stream",
        "call key_by before process",
    ),
    "a process function on keys": mistake(
        """
        class F(ProcessFunction):
            def process_element(self, value, ctx): yield value
        numbers.key_by(lambda n: n).process(F())
        """,
        "TypeError: KeyedProcessFunction is required for KeyedStream",
    ),
    "broadcast without a descriptor": mistake(
        """
        class F(BroadcastProcessFunction):
            def process_element(self, value, ctx): yield value
            def process_broadcast_element(self, value, ctx): pass
        numbers.connect(pairs.broadcast()).process(F())
        """,
        "TypeError: a BroadcastProcessFunction needs a stream that is broadcast with its state",
        "MapStateDescriptor(...)",
    ),
    "a broadcast of a value": mistake(
        "pairs.broadcast(ValueStateDescriptor('rules', Types.STRING()))",
        "TypeError: broadcast_state_descriptor must be MapStateDescriptor",
    ),
    # What a stream and a program are.
    "a stream as a list": mistake(
        "for n in numbers:\n    print(n)",
        "TypeError: a DataStream is a step of a program and holds no records",
        "execute_and_collect()",
    ),
    "the length of a stream": mistake(
        "len(numbers)",
        "TypeError: a DataStream is a step of a program and holds no records",
        "execute_and_collect()",
    ),
    "collect, as in Spark": mistake(
        "numbers.collect()",
        "AttributeError: 'DataStream' object has no attribute 'collect': here it is execute_and_collect()",
    ),
    "group_by, as in Spark": mistake(
        "pairs.group_by(lambda p: p[0])",
        "AttributeError: ",
        "here it is key_by(function)",
    ),
    "show, as in Spark": mistake(
        "numbers.show()",
        "AttributeError: ",
        "here it is print() and env.execute()",
    ),
    "the Table API": mistake(
        "from flinkbuf.table import StreamTableEnvironment",
        "ImportError: flinkbuf has no Table API and no SQL",
        "StreamTableEnvironment",
        "DataStream",
    ),
    "read_text_file of old versions": mistake(
        "env.read_text_file('/tmp/x.txt')",
        "AttributeError: ",
        "here it is from_source(FileSource.for_record_stream_format(",
    ),
    "a misspelt method of the environment": mistake(
        "env.from_colection([1])",
        "AttributeError: ",
        "Did you mean: 'from_collection'?",
    ),
    "a consumer of old versions": mistake(
        "from flinkbuf.datastream.connectors.kafka import FlinkKafkaConsumer\nFlinkKafkaConsumer('t', None, {})",
        "NotImplementedError: FlinkKafkaConsumer is a Java class",
        "use a KafkaSource",
    ),
    "connect with a list": mistake(
        "numbers.connect([1])",
        "TypeError: connect takes a DataStream or a BroadcastStream, got list [1]",
    ),
    "a side output by its name": mistake(
        "numbers.get_side_output('late')",
        "TypeError: an OutputTag is needed, got str 'late'",
    ),
    "sink_to of a function": mistake(
        "numbers.sink_to(print)",
        "TypeError: sink_to takes a flinkbuf.datastream.connectors.base.Sink",
        "add_sink",
    ),
    "a path that is no source": mistake(
        "env.from_source('/tmp/x.txt', WatermarkStrategy.no_watermarks(), 'files')",
        "TypeError: from_source takes a flinkbuf.datastream.connectors.base.Source, got str",
        "add_source",
    ),
    "a collection that is a number": mistake(
        "env.from_collection(5)",
        "TypeError: from_collection takes a list or another iterable, got int 5",
    ),
    "a file source of nothing": mistake(
        """
        from flinkbuf.datastream.connectors import FileSource, StreamFormat
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), '/nowhere/at/all').build()
        env.from_source(source, WatermarkStrategy.no_watermarks(), 'files').print()
        env.execute()
        """,
        "FileNotFoundError: ",
        "/nowhere/at/all",
        "'Source: files'",
    ),
    "forward to fewer": mistake(
        "numbers.map(str).set_parallelism(2).forward().map(str).set_parallelism(3).print()\nenv.execute()",
        "ValueError: forward partitioning cannot change the parallelism",
        "use rebalance()",
    ),
    "an uid twice": mistake(
        """
        numbers.map(str).uid('a').print()
        numbers.map(str).uid('a').print()
        env.execute()
        """,
        "ValueError: operators 'Map' and 'Map' have the same uid 'a'",
    ),
    "a batch of no end": mistake(
        """
        def numbers_for_ever():
            yield 1
        class Endless(SourceFunction):
            def run(self, ctx): pass
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        env.add_source(Endless()).print()
        env.execute()
        """,
        "ValueError: Detected an UNBOUNDED source",
        "'Custom Source'",
        "or give the source an end",
    ),
    # Values, and what was declared.
    "a map that forgot to return": mistake(
        """
        def f(n):
            n + 1
        numbers.map(f, Types.INT()).print()
        env.execute()
        """,
        "TypeError: value: expected INT, got None (NoneType)",
        "operator 'Map'",
    ),
    "a key of another type": mistake(
        "pairs.key_by(lambda p: p[0], Types.INT()).sum(1).print()\nenv.execute()",
        "TypeError: record 0: the key: expected INT, got 'a' (str)",
    ),
    "an INSTANT of a datetime": mistake(
        """
        import datetime
        numbers.map(lambda n: datetime.datetime.now(datetime.timezone.utc), Types.INSTANT()).print()
        env.execute()
        """,
        "TypeError: value: expected INSTANT, got datetime",
        "Instant.from_datetime",
    ),
    "an aware time for SQL_TIMESTAMP": mistake(
        """
        import datetime
        numbers.map(lambda n: datetime.datetime.now(datetime.timezone.utc), Types.SQL_TIMESTAMP()).print()
        env.execute()
        """,
        "ValueError: value: expected SQL_TIMESTAMP",
        "its time zone would be lost",
    ),
    "a number beyond INT": mistake(
        "numbers.map(lambda n: n * 2**40, Types.INT()).print()\nenv.execute()",
        "OverflowError: value: expected INT, got 1099511627776 (int)",
        "within -2147483648..2147483647",
    ),
    "a row changed": mistake(
        """
        def f(n):
            row = Row(n=n)
            row.n = 5
            return row
        numbers.map(f).print()
        env.execute()
        """,
        "AttributeError: a Row cannot be changed",
        "row = row.replace(n=5)",
    ),
    "a row by position and name": mistake(
        "Row(1, n=2)",
        "TypeError: give the fields of a Row either by position or by name",
    ),
    "a row type of other length": mistake(
        "Types.ROW_NAMED(['a', 'b'], [Types.INT()])",
        "ValueError: 2 field names ['a', 'b'] for 1 types",
    ),
    "sum of a name that tuples have not": mistake(
        "pairs.map(lambda p: ('k', p[1])).key_by(lambda p: p[0]).sum('delay').print()\nenv.execute()",
        "TypeError: the field 'delay' is asked for by name, but ('k', 1) has no names",
    ),
    "sum of a field that there is not": mistake(
        "pairs.map(lambda p: ('k', p[1])).key_by(lambda p: p[0]).sum(7).print()\nenv.execute()",
        "IndexError: there is no field 7: ('k', 1) has 2 fields",
    ),
    "map_batches without a type": mistake(
        "numbers.map_batches(lambda batch: batch)",
        "ValueError: the records of 'Collection Source' are of no declared type",
        "input_type=",
    ),
    "a partitioner beyond the partitions": mistake(
        """
        env.set_parallelism(2)
        numbers.partition_custom(lambda key, count: 5, lambda n: n).map(str).print()
        env.execute()
        """,
        "ValueError: record 0: the partitioner",
        "must return an int from 0 to 1, got 5",
    ),
    # Time, windows and state.
    "seconds as a text": mistake(
        "Time.seconds('5')",
        "TypeError: seconds must be a number, got str '5'",
    ),
    "out of order by a number": mistake(
        "WatermarkStrategy.for_bounded_out_of_orderness(5)",
        "TypeError: max_out_of_orderness must be a Time, a Duration or a timedelta",
        "Time.seconds(5)",
    ),
    "timestamps as datetimes": mistake(
        """
        import datetime
        from flinkbuf.common.watermark_strategy import TimestampAssigner
        class At(TimestampAssigner):
            def extract_timestamp(self, value, record_timestamp): return datetime.datetime.now()
        numbers.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())).print()
        env.execute()
        """,
        "TypeError: a timestamp is an int, milliseconds since 1970 in 64 bits",
        "At.extract_timestamp gave datetime",
    ),
    "a lateness as a Time": mistake(
        "pairs.key_by(lambda p: p[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))"
        ".allowed_lateness(Time.seconds(1))",
        "TypeError: the allowed lateness is an int of milliseconds, got Time",
    ),
    "a window of no records": mistake(
        "pairs.key_by(lambda p: p[0]).count_window(0)",
        "ValueError: a count window holds at least one record, got 0",
    ),
    "a trigger that is none": mistake(
        "pairs.key_by(lambda p: p[0]).count_window(2).trigger('count')",
        "TypeError: a Trigger is needed, got str 'count'",
    ),
    "apply is given a process function": mistake(
        """
        class F(ProcessWindowFunction):
            def process(self, key, context, elements): return []
        pairs.key_by(lambda p: p[0]).count_window(2).apply(F())
        """,
        "TypeError: window_function should be a WindowFunction",
    ),
    "a state of a Python class": mistake(
        "ValueStateDescriptor('seen', int)",
        "TypeError: the type of the state 'seen' must be a TypeInformation, such as Types.LONG()",
    ),
    "a state in open": mistake(
        """
        class F(KeyedProcessFunction):
            def open(self, context):
                self.seen = context.get_state(ValueStateDescriptor('seen', Types.INT()))
                self.seen.update(0)
            def process_element(self, value, ctx): yield value
        numbers.key_by(lambda n: n).process(F()).print()
        env.execute()
        """,
        "RuntimeError: keyed state and timers belong to a key",
        "in open()",
    ),
    "a state twice by other types": mistake(
        """
        class F(KeyedProcessFunction):
            def open(self, context):
                self.a = context.get_state(ValueStateDescriptor('seen', Types.INT()))
                self.b = context.get_state(ValueStateDescriptor('seen', Types.STRING()))
            def process_element(self, value, ctx): yield value
        numbers.key_by(lambda n: n).process(F()).print()
        env.execute()
        """,
        "TypeError: there is a state 'seen' already whose type is Types.INT()",
        "another name",
    ),
    "a timer without keys": mistake(
        """
        class F(ProcessFunction):
            def process_element(self, value, ctx):
                ctx.timer_service().register_event_time_timer(5)
        numbers.process(F()).print()
        env.execute()
        """,
        "RuntimeError: Register timers is only supported on a keyed stream",
        "call key_by() first",
    ),
    "checkpoints at a text": mistake(
        "env.enable_checkpointing('1 s')",
        "TypeError: a checkpoint interval is an int of milliseconds, got str '1 s'",
    ),
    "a mode as a text": mistake(
        "env.set_runtime_mode('BATCH')",
        "TypeError: a RuntimeExecutionMode is needed, got 'BATCH'",
    ),
    "a restart that is negative": mistake(
        "RestartStrategies.fixed_delay_restart(-1, 5)",
        "ValueError: restart_attempts must be at least 0, got -1",
    ),
    # Asynchronous calls.
    "an async function that is not": mistake(
        """
        class F(AsyncFunction):
            def async_invoke(self, value): return [value]
        AsyncDataStream.ordered_wait(numbers, F(), Time.seconds(1))
        """,
        "TypeError: Method 'async_invoke' of class",
        "should be declared as 'async def'",
    ),
    "an async wait for a coroutine function": mistake(
        "async def look_up(n): return [n]\nAsyncDataStream.ordered_wait(numbers, look_up, Time.seconds(1))",
        "TypeError: an AsyncFunction is needed",
        "async def async_invoke(self, value)",
    ),
    "a timeout as a number": mistake(
        """
        class F(AsyncFunction):
            async def async_invoke(self, value): return [value]
        AsyncDataStream.ordered_wait(numbers, F(), 5)
        """,
        "TypeError: timeout must be a Time, a Duration or a timedelta, such as Time.seconds(5), got int 5",
    ),
    "an async result that is no list": mistake(
        """
        class F(AsyncFunction):
            async def async_invoke(self, value): return value
        AsyncDataStream.ordered_wait(numbers, F(), Time.seconds(5)).print()
        env.execute()
        """,
        "TypeError: the function gave 1 (int) where an iterable of results is due",
        "give [result] for one result",
    ),
    "an async call that fails": mistake(
        """
        class F(AsyncFunction):
            async def async_invoke(self, value): return [1 // (value - 2)]
        AsyncDataStream.ordered_wait(numbers, F(), Time.seconds(5)).print()
        env.execute()
        """,
        "ZeroDivisionError: ",
        "with the record 2",
    ),
    "an async call that times out": mistake(
        """
        import asyncio
        class F(AsyncFunction):
            async def async_invoke(self, value): await asyncio.sleep(60)
        AsyncDataStream.ordered_wait(numbers, F(), Time.milliseconds(50)).print()
        env.execute()
        """,
        "",
        "AsyncTimeoutError: no result within 0.05 s",
        "with the record 1",
    ),
    "a coroutine that blocks": mistake(
        """
        import time
        class F(AsyncFunction):
            async def async_invoke(self, value):
                time.sleep(0.5)
                return [value]
        AsyncDataStream.ordered_wait(numbers, F(), Time.seconds(5)).print()
        env.execute()
        """,
        "",
        "F.async_invoke blocks the event loop",
        "time.sleep(0.5)",
        "asyncio.to_thread",
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


@pytest.mark.long
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
