"""How many records a second do keyed reductions, windows and timestamps take, next to a loop over a dict?

One operator alone: no source, no chain, no network, results thrown away. The key is an item of a tuple, taken by
``operator.itemgetter``; sums are of built-in kinds, so no Python function of a user runs but where a case says so. The
rival is the plain loop that one writes when one has no such operator; it knows nothing of watermarks, and for windows
it keeps all of them. ``calls`` is what calling an empty operator costs in the same loop. flink-benchmarks:
WindowBenchmarks, KeyByBenchmarks.
"""

import random
from operator import itemgetter

import pytest
from measure import measure, scaled

from flinkbuf._core.operators.timestamps_operator import TimestampsAndWatermarksOperator
from flinkbuf._core.task.operator_chain import BroadcastingOutput, OperatorCounters
from flinkbuf.streaming.chain.aggregations import ReduceOperatorFactory, field_reduce
from flinkbuf.streaming.time.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinkbuf.streaming.windows.count_windows import CountTumblingWindowAssigner
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows
from flinkbuf.streaming.windows.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkbuf.streaming.windows.window_functions import ProcessWindowFunction
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.duration import Duration

COUNT, KEYS, SIZE_MS = scaled(200_000), 1000, 1000
RANDOM = random.Random(7)
# A record each millisecond and 20, up to 500 ms out of order: (key, amount), timestamp.
RECORDS = [((f"key-{RANDOM.randrange(KEYS)}", number), number // 20 - RANDOM.randrange(500)) for number in range(COUNT)]
KEY = itemgetter(0)
SUM = field_reduce("sum", 1)
WATERMARK_EVERY = 1000  # records


class Own(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp


class Count(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, len(elements)


def nobody():
    """An output to which nobody listens."""
    return BroadcastingOutput(OperatorCounters(), OperatorCounters(), [])


def operated(make_operator, watermarks=False):
    def run():
        with OperatorHarness(make_operator(), is_keyed=True) as harness:
            # The same operator again, but for what it emits.
            operator = harness.operator
            operator.setup(harness.context, nobody())
            process = operator.process_element
            if not watermarks:
                for value, timestamp in RECORDS:
                    process(value, timestamp)
                return
            for start in range(0, COUNT, WATERMARK_EVERY):
                for value, timestamp in RECORDS[start : start + WATERMARK_EVERY]:
                    process(value, timestamp)
                operator.process_watermark(start // 20 - 500)

    return run, COUNT, "records"


def calls():
    collect = nobody().collect

    def run():
        for value, timestamp in RECORDS:
            collect(value, timestamp)

    return run, COUNT, "records"


def dict_reduce():
    def run():
        totals = {}
        for value, _ in RECORDS:
            key = value[0]
            before = totals.get(key)
            totals[key] = value if before is None else (key, before[1] + value[1])

    return run, COUNT, "records"


def dict_windows():
    def run():
        totals = {}
        for value, timestamp in RECORDS:
            pane = value[0], timestamp - timestamp % SIZE_MS
            before = totals.get(pane)
            totals[pane] = value if before is None else (value[0], before[1] + value[1])

    return run, COUNT, "records"


def windows(assigner, is_general=False, **function):
    factory = WindowOperatorFactory(assigner, key_selector=KEY, **function)
    return operated(factory.general if is_general else factory, watermarks=True)


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner(Own())
TUMBLING = TumblingEventTimeWindows(SIZE_MS, 0)
CASES = {
    "window_operator.calls": calls,
    "window_operator.reduce.flinkbuf": lambda: operated(ReduceOperatorFactory(KEY, SUM)),
    "window_operator.reduce.dict": dict_reduce,
    "window_operator.timestamps.flinkbuf": lambda: operated(lambda: TimestampsAndWatermarksOperator(STRATEGY)),
    "window_operator.tumbling_sum.flinkbuf": lambda: windows(TUMBLING, reduce_function=SUM),
    "window_operator.tumbling_sum.general": lambda: windows(TUMBLING, True, reduce_function=SUM),
    "window_operator.tumbling_sum.dict": dict_windows,
    "window_operator.tumbling_process.flinkbuf": lambda: windows(TUMBLING, window_function=Count()),
    "window_operator.sliding_sum.flinkbuf": lambda: windows(SlidingEventTimeWindows(1000, 250, 0), reduce_function=SUM),
    "window_operator.count_sum.flinkbuf": lambda: windows(CountTumblingWindowAssigner(10), reduce_function=SUM),
    "window_operator.session_sum.flinkbuf": lambda: windows(EventTimeSessionWindows(50), reduce_function=SUM),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name](), benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name]())
