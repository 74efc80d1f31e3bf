"""A job from outside: what execute() gives, the client of a job, its settings, and what functions know of it."""

from pyflink.common import Configuration, Types
from pyflink.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor


class WhereAmI(MapFunction):
    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.counter = group.counter("records")
        self.nested = group.add_group("nested").counter("records")
        self.distribution = group.distribution("sizes")
        self.context = runtime_context

    def map(self, value):
        self.counter.inc()
        self.nested.inc(3)
        self.distribution.update(value)
        context = self.context
        return (
            "where am I" in context.get_task_name(),
            context.get_task_name_with_subtasks()[-7:],
            context.get_number_of_parallel_subtasks(),
            context.get_max_number_of_parallel_subtasks(),
            context.get_job_parameter("colour", "none"),
            context.get_job_parameter("shape", "none"),
        )


class StatesLate(KeyedProcessFunction):
    """Asks for states when it needs them, and twice."""

    def open(self, runtime_context):
        self.context = runtime_context

    def process_element(self, value, ctx):
        count = self.context.get_state(ValueStateDescriptor("count", Types.INT()))
        count.update((count.value() or 0) + 1)
        seen = self.context.get_map_state(MapStateDescriptor("seen", Types.INT(), Types.BOOLEAN()))
        seen.put(value, None)
        yield value, count.value(), sorted(seen.keys()), seen.get(value), seen[99], seen.contains(99)


def _refused(attempt):
    try:
        attempt()
    except Exception:
        return "refused"
    return "taken"


def result_of_execute(env):
    env.from_collection([1], Types.INT()).print()
    result = env.execute("a job")
    runtime = result.get_net_runtime()
    return [type(result).__name__, len(str(result.get_job_id())), runtime >= 0, result.get_all_accumulator_results()]


def client_of_a_job(env):
    env.from_collection([1], Types.INT()).print()
    client = env.execute_async("a job")
    result = client.get_job_execution_result().result()
    return [type(client).__name__, type(result).__name__, str(client.get_job_id()) == str(result.get_job_id())]


def executed_twice(env):
    env.from_collection([1], Types.INT()).print()
    env.execute()
    return [_refused(env.execute), _refused(env.get_execution_plan)]


def iterators_closed(env):
    stream = env.from_collection(range(100), Types.LONG()).map(lambda value: value, Types.LONG())
    results = stream.execute_and_collect()
    first = results.next()
    results.close()
    return [first, _refused(results.next)]


def limits_of_collecting(env):
    limits = [
        _refused(lambda limit=limit: env.from_collection([1]).execute_and_collect(limit=limit)) for limit in (0, -1)
    ]
    few = env.from_collection([1, 2, 3], Types.INT()).execute_and_collect("few", 2)
    return [limits, few, env.from_collection([1, 2], Types.INT()).execute_and_collect(limit=9)]


def what_functions_know(env):
    env.set_parallelism(2)
    env.get_config().set_global_job_parameters({"colour": "red"})
    stream = env.from_collection([1, 2], Types.INT()).rebalance().map(WhereAmI()).name("where am I")
    return sorted(stream.execute_and_collect())


def states_asked_for_late(env):
    return list(env.from_collection([1, 2, 1]).key_by(lambda value: 0).process(StatesLate()).execute_and_collect())


def environments_configured(env):
    configuration = Configuration()
    configuration.set_integer("parallelism.default", 3)
    configuration.set_string("pipeline.max-parallelism", "12")
    configuration.set_string("execution.buffer-timeout.interval", "5 ms")
    configured = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.configure(configuration)
    return [
        [each.get_parallelism(), each.get_max_parallelism(), each.get_buffer_timeout()] for each in (configured, env)
    ]
