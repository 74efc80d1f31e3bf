"""One record at a time: map, flat_map, filter, project, union, and the life of a function."""

from pyflink.common import Row, Types
from pyflink.datastream import FilterFunction, FlatMapFunction, MapFunction, ProcessFunction


class AddSubtask(MapFunction):
    def open(self, runtime_context):
        self.context = runtime_context

    def map(self, value):
        context = self.context
        return (
            value,
            context.get_index_of_this_subtask(),
            context.get_number_of_parallel_subtasks(),
            context.get_attempt_number(),
            context.get_job_parameter("missing", "default"),
        )


class Counting(FlatMapFunction):
    def __init__(self, start):
        self.seen = start

    def open(self, runtime_context):
        self.seen += 100

    def flat_map(self, value):
        self.seen += 1
        for copy in range(value):
            yield self.seen, copy


class IsOdd(FilterFunction):
    def filter(self, value):
        return value % 2


class Everything(ProcessFunction):
    def process_element(self, value, ctx):
        if value == 3:
            return
        yield value
        yield -value


def functions_as_lambdas(env):
    stream = env.from_collection([1, 2, 3, 4])
    stream = stream.map(lambda value: value * 3).flat_map(lambda value: [value, value + 1])
    return list(stream.filter(lambda value: value % 2 == 0).map(lambda value: f"<{value}>").execute_and_collect())


def functions_as_classes(env):
    stream = env.from_collection([1, 2, 3]).flat_map(Counting(10)).map(AddSubtask())
    return list(stream.execute_and_collect())


def methods_of_callables(env):
    class Multiply:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, value):
            return value * self.factor

    return list(env.from_collection(["a", "b"]).map(Multiply(2)).map(str.upper).execute_and_collect())


def flat_map_takes_any_iterable(env):
    results = [[1, 2], (3, 4), iter([5]), range(6, 8), {8}, "ab", {"k": 1}, [], (n for n in (9, 10))]
    stream = env.from_collection(range(len(results)))

    def pick(index):
        return [[1, 2], (3, 4), iter([5]), range(6, 8), {8}, "ab", {"k": 1}, [], (n for n in (9, 10))][index]

    return list(stream.flat_map(pick).execute_and_collect())


def filter_by_truth(env):
    answers = [None, 0, 1, "", "a", [], [0], 2.5, True, False]
    stream = env.from_collection(range(10)).filter(lambda index: answers[index])
    return list(stream.execute_and_collect())


def filter_function_keeps_type(env):
    stream = env.from_collection([1, 2, 3], Types.INT()).filter(IsOdd())
    return [str(stream.get_type()), list(stream.execute_and_collect())]


def map_to_none(env):
    return list(
        env.from_collection([1, 2]).map(lambda value: None).map(lambda value: repr(value)).execute_and_collect()
    )


def process_yields_or_returns(env):
    return list(env.from_collection([1, 2, 3]).process(Everything()).execute_and_collect())


def project_fields(env):
    type_info = Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()])
    stream = env.from_collection([(1, "a", 0.5), (2, "b", 1.5)], type_info)
    swapped = stream.project(2, 0)
    return [str(swapped.get_type()), list(swapped.execute_and_collect())]


def union_of_three(env):
    streams = [env.from_collection([number, number + 1], Types.INT()) for number in (10, 20, 30)]
    united = streams[0].union(streams[1], streams[2], streams[0])
    return [str(united.get_type()), sorted(united.map(lambda value: value, Types.INT()).execute_and_collect())]


def a_stream_read_twice(env):
    stream = env.from_collection([1, 2]).map(lambda value: [value])
    left = stream.map(lambda value: ("left", value[0]))
    right = stream.map(lambda value: ("right", value[0]))
    return sorted(left.union(right).execute_and_collect())


def long_chain(env):
    stream = env.from_collection(range(50))
    for step in range(12):
        stream = stream.map(lambda value, step=step: value + step)
    return list(stream.execute_and_collect())


def chains_cut(env):
    env.set_parallelism(1)
    stream = env.from_collection(["b", "a"]).map(lambda value: value + "1").start_new_chain()
    stream = stream.map(lambda value: (value, Row(value))).disable_chaining().map(lambda value: value[1])
    return list(stream.execute_and_collect())


def no_chaining_at_all(env):
    env.disable_operator_chaining()
    stream = env.from_collection([1, 2, 3]).map(lambda value: value + 1).filter(lambda value: value > 2)
    return list(stream.execute_and_collect())
