"""How fast is a keyed process function with a value and a timer a record, next to a dict and heapq by hand?

The operator alone, without a task: the value read and written, the timer registered and fired. flink-benchmarks: none.
"""

import heapq

import pytest
from measure import measure, scaled

from flinkbuf._core.operators.process_operator import KeyedProcessOperator
from flinkbuf._core.operators.stream_operator import Output
from flinkbuf.streaming.chain.process_functions import KeyedProcessFunction
from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.testing import OperatorHarness

COUNT = scaled(100_000)
RECORDS = [(number * 7919 % 1000, number) for number in range(COUNT)]


class Forgets(Output):
    """Nobody listens."""

    def collect(self, value, timestamp):
        pass

    def emit_watermark(self, timestamp):
        pass


class Count(KeyedProcessFunction):
    """Counts the records of a key; says so ten milliseconds after each."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        count = self.count.value()
        self.count.update(1 if count is None else count + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 10)

    def on_timer(self, timestamp, ctx):
        yield self.count.value()


def process_operator():
    harness = OperatorHarness(
        KeyedProcessOperator(Count(), lambda value: value[0], TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)
    )
    harness._output = Forgets()
    harness.open()
    return harness.operator


OPERATOR = process_operator()


def state_and_timer():
    process_element = OPERATOR.process_element
    for record in RECORDS:
        process_element(record, record[1])
    OPERATOR.process_watermark(2 * len(RECORDS))


def by_hand():
    counts, heap, waiting = {}, [], set()
    for key, time in RECORDS:
        counts[key] = counts.get(key, 0) + 1
        timer = (time + 10, key)
        if timer not in waiting:
            waiting.add(timer)
            heapq.heappush(heap, timer)
    while heap:
        timer = heapq.heappop(heap)
        waiting.discard(timer)
        counts[timer[1]]


CASES = {
    "process_operator.state_and_timer": (state_and_timer, COUNT, "records"),
    "process_operator.by_hand": (by_hand, COUNT, "records"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
