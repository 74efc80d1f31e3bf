"""What does a count of words cost in batch execution, where the counts come once, next to a stream of them?

The same program at parallelism 2 over the same words, both ways; the stream emits a count for each word. Counterpart in
Flink: SortingBoundedInputITCase, and SortedInputBenchmark of flink-benchmarks.
"""

import random

import pytest
from measure import measure, scaled

from flinkbuf.common import Types, WatermarkStrategy
from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource

COUNT = scaled(100_000)
CHANCE = random.Random(7)
WORDS = ["".join(CHANCE.choices("etaoinshrdlu", k=length)) for length in range(2, 12) for _ in range(100)]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def word_count(mode, count=COUNT):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")
    words = numbers.map(lambda number: (WORDS[number * 7919 % 1000], 1), PAIR)
    counts = words.key_by(lambda pair: pair[0], Types.STRING()).sum(1)
    total = 0
    with counts.execute_and_collect() as results:
        for _ in results:
            total += 1
    return total


def batch():
    return word_count(RuntimeExecutionMode.BATCH)


def streaming():
    return word_count(RuntimeExecutionMode.STREAMING)


RESULTS = {"batch": len(set(WORDS)), "streaming": COUNT}
CASES = {f"word_count.{run.__name__}": run for run in (batch, streaming)}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    assert CASES[name]() == RESULTS[name.partition(".")[2]]
    measure(name, CASES[name], COUNT, "records", benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, CASES[name], COUNT, "records")
