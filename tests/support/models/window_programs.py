"""Window operators as tests use them: what programs make of windows, in each way that there is."""

from support.models.frozen_tables import contents_of

from flinkbuf.streaming.chain.functions import AggregateFunction
from flinkbuf.streaming.windows.window_functions import ProcessWindowFunction
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.testing import OperatorHarness


def key_of(value):
    return value[0]


class Numbers(ProcessWindowFunction):
    """The key, the window and the numbers in it."""

    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, tuple(number for _, number in elements)


class SortedNumbers(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        return [(key, window.start, window.end, tuple(sorted(number for _, number in elements)))]


class Gathered(ProcessWindowFunction):
    """As `Numbers`, of windows whose numbers were gathered already."""

    def process(self, key, context, elements):
        (numbers,) = elements
        window = context.window()
        yield key, window.start, window.end, tuple(sorted(numbers))


class Gather(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def joined(one, other):
    """Two of ("a", 1) and ("a", (1, 2)) as one."""
    numbers = [each[1] if isinstance(each[1], tuple) else (each[1],) for each in (one, other)]
    return one[0], numbers[0] + numbers[1]


class Joined(ProcessWindowFunction):
    def process(self, key, context, elements):
        ((_, numbers),) = elements
        window = context.window()
        yield key, window.start, window.end, tuple(sorted(numbers if isinstance(numbers, tuple) else (numbers,)))


WAYS = {
    "process": {"window_function": SortedNumbers()},
    "aggregate": {"aggregate_function": Gather(), "window_function": Gathered()},
    "reduce": {"reduce_function": joined, "window_function": Joined()},
}


def factory(assigner, **arguments):
    arguments.setdefault("window_function", Numbers())
    return WindowOperatorFactory(assigner, key_selector=key_of, late_tag_id="late", **arguments)


def opened(assigner, **arguments):
    return OperatorHarness(factory(assigner, **arguments).general())


def state_left(harness):
    """What the operator keeps: (name, namespace, key, value) of its states, (name, namespace, key, time) of timers."""
    snapshot = harness.context.keyed_state.snapshot()
    kept = []
    for part in snapshot._parts:
        if part.meta.kind == "timers":
            kept += [(part.meta.name, namespace, token, time) for time, token, namespace in part.timers]
        else:
            for namespace, values in contents_of(part.table).items():
                kept += [(part.meta.name, namespace, token, value) for token, value in values.items()]
    snapshot.release()
    return kept
