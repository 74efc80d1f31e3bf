"""How long does a job's output pause while it is given another parallelism?

20,000 records a second through a shuffle into a count by key, over a million keys that are all there before, on `local`
processes: at parallelism 1, then 2, then 1 again, by the job's own rescaling, which is a savepoint, an end and a new
beginning. The gap is the longest time in which no record arrives at the sink anywhere. No record may be lost or come
twice. Flink's adaptive scheduler does the same from its latest checkpoint.

python bench/bench_rescale.py --rate 20000 --keys 1000000 [--set KEY=VALUE]
"""

import argparse
import json
import tempfile
import time

from bench_tail import RECORD, SETTINGS, Count, first
from measure import SMOKE, report
from paced import Arrivals, PacedSource, arrivals_in, longest_gap_ms, wait_for_the_first

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import StreamExecutionEnvironment

STEPS = (2, 1)
OPTIONS = {"execution.checkpointing.interval": "10 s", "rest.enabled": "true"}  # without a server no job is rescaled


def gaps_in(rate, keys, between_s, settings):
    """Return the milliseconds of the longest gap for each change of the parallelism."""
    seconds = between_s * (len(STEPS) + 1)
    with tempfile.TemporaryDirectory(prefix="flinkbuf-bench-") as folder:
        configuration = Configuration.from_dict({**SETTINGS, **OPTIONS, **settings})
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
        count = keys + int(rate * seconds)
        source = PacedSource(keys, count, rate, filling=keys)
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced", RECORD).set_parallelism(1)
        counted = records.uid("paced").key_by(first, Types.LONG()).map(Count(), RECORD).uid("count")
        counted.add_sink(Arrivals(folder, first=keys)).uid("arrivals")
        job = env.execute_async("rescaled")
        begun = wait_for_the_first(folder)
        asked = []
        for number, parallelism in enumerate(STEPS, 1):
            time.sleep(max(0.0, begun + number * between_s - time.time()))
            asked.append(time.time())
            job._job.rescale(parallelism).result()
        job.get_job_execution_result().result()
        arrivals = arrivals_in(folder)
    arrived = sum(each["count"] for each in arrivals)
    if arrived != count - keys:
        raise RuntimeError(f"{arrived:,} records arrived of {count - keys:,}")
    return [_gap_from(arrivals, at, between_s) for at in asked]


def _gap_from(arrivals, at, between_s):
    """Return the longest gap that began around or after a moment, and before the next step."""
    begin, end = at * 1000 - 1_000, (at + between_s * 0.7) * 1000
    inside = [
        {"milliseconds": [each for each in arrival["milliseconds"] if begin <= each <= end]} for arrival in arrivals
    ]
    return longest_gap_ms(inside)[0]


def measure_gaps(options, benchmark=None):
    settings = dict(each.split("=", 1) for each in options.set)
    gaps = gaps_in(options.rate, options.keys, options.between, settings)
    report("rescale_gap.flinkbuf", [max(gaps) / 1000], 1, "rescalings", benchmark=benchmark)
    return gaps


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=2_000 if SMOKE else 20_000, help="records a second")
    parser.add_argument("--keys", type=int, default=10_000 if SMOKE else 1_000_000)
    parser.add_argument("--between", type=float, default=2 if SMOKE else 10, help="seconds before each change")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the job")
    parser.add_argument("--smoke", action="store_true", help="few keys, a few seconds")
    return parser.parse_args(arguments)


def test_gaps(benchmark):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_gaps(parsed([]), benchmark)


if __name__ == "__main__":
    gaps = measure_gaps(parsed())
    print(json.dumps({"gaps_ms": dict(zip(("1 to 2", "2 to 1"), gaps, strict=True))}))
