"""How late are records at worst, and how long does a job pause, with a checkpoint each second?

50,000 records a second through a shuffle into a count by key, on `local` processes at parallelism 2. How late a record
is counts from when it was due, not from when the source got round to it; the longest pause is that between two records
of a subtask, 40 µs apart on average. The first seconds are left out. `machine` is a process beside the job that only
sleeps a millisecond at a time, and how late it wakes; `waited` is how long threads of the job stood ready without a
core, in seconds a second: about 0.3 where it has two cores to itself; with more, the figures are those of a machine
that has other work. The rival is a count by key of Spark's rate source in micro-batches, on ``local[2]``, as fast as
they follow each other, from the end of the first one on; its source gives the rows of a whole second at once.

python bench/bench_tail.py --seconds 120 --rate 50000 --keys 100000 [--rival] [--set KEY=VALUE]
"""

import argparse
import itertools
import json
import tempfile
import time

from measure import SMOKE, report
from paced import Arrivals, PacedSource, arrivals_in, bystander, late_ms

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.state import ValueStateDescriptor

PARALLELISM = 2
RECORD = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
LEAST_BATCHES = 3  # of Spark's, on however slow a machine
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
SETTINGS = {
    "execution.target": "local",
    "execution.checkpointing.interval": "1 s",
    "execution.buffer-timeout.interval": "1 ms",
    "pipeline.progress": "false",
}


class Count(MapFunction):
    """Counts the records of a key."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value


def first(value):
    return value[0]


def late_in(seconds, rate, keys, skipped_s, settings, target="local"):
    """Return milliseconds by share of the records, the longest pause, and what else is worth a look.

    `pauses` are the longest ones, as (milliseconds, when in seconds).
    """
    with tempfile.TemporaryDirectory(prefix="flinkbuf-bench-") as folder:
        configuration = Configuration.from_dict({**SETTINGS, "execution.target": target, **settings})
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)
        source = PacedSource(keys, int(rate * (seconds + skipped_s)), rate)
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced", RECORD)
        counted = records.key_by(first, Types.LONG()).map(Count(), RECORD)
        counted.add_sink(Arrivals(folder, skipped_s=skipped_s))
        with bystander(folder, skipped_s) as beside:
            env.execute("tail")
        arrivals = arrivals_in(folder)
    pauses = sorted((pause for each in arrivals for pause in each["pauses"]), reverse=True)
    begun = min(each["milliseconds"][0] for each in arrivals)
    return {
        **{name: late_ms(arrivals, share) for name, share in SHARES.items()},
        "pause": pauses[0][0] / 1e6 if pauses else 2.0,
        "pauses": [(round(length / 1e6, 1), round(at / 1e9 - begun / 1e3, 2)) for length, at in pauses[:10]],
        "records": sum(each["count"] for each in arrivals),
        "waited": round(sum(each["waited"] for each in arrivals), 3),
        "machine": {
            **{name: late_ms(beside, share) for name, share in SHARES.items()},
            "pause": beside[0]["pauses"][0][0] / 1e6,
        },
    }


def late_in_spark(seconds, rate, keys, skipped_s):
    """Return the same of Spark's micro-batches; a record of each key counts, the last one."""
    from local_spark import session
    from pyspark.sql import functions as f

    session().conf.set("spark.sql.shuffle.partitions", str(PARALLELISM))
    counts, ends = {}, []

    def see(batch, number):
        batch = batch.persist()
        batch.write.format("noop").mode("overwrite").save()
        now = time.time()
        if not ends:  # the first one takes seconds: what it runs is compiled by Java meanwhile
            ends.append(now)
        elif now - ends[0] > skipped_s:
            ends.append(now)
            for at, count in batch.groupBy(f.unix_millis("last")).count().collect():
                counts[round(now * 1000) - at] = counts.get(round(now * 1000) - at, 0) + count
        batch.unpersist()

    rows = session().readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", PARALLELISM).load()
    counted = rows.groupBy((f.col("value") * 7919 % keys).alias("key")).agg(
        f.count("*").alias("n"), f.max("timestamp").alias("last")
    )
    with tempfile.TemporaryDirectory(prefix="flinkbuf-bench-") as folder:
        query = counted.writeStream.outputMode("update").foreachBatch(see).option("checkpointLocation", folder).start()
        while len(ends) < 1 + LEAST_BATCHES or time.time() - ends[0] < seconds + skipped_s:
            if query.awaitTermination(1):
                raise RuntimeError("the query has ended by itself")
        query.stop()
    steps = [{"late": {at * 100: count for at, count in counts.items()}}]  # of 10 µs
    pauses = [after - before for before, after in itertools.pairwise(ends[1:])]
    return {**{name: late_ms(steps, share) for name, share in SHARES.items()}, "pause": max(pauses, default=0) * 1000}


def told(who, found, benchmark=None):
    """Report each figure, and print the rest."""
    for name in (*SHARES, "pause"):
        report(f"tail_{name}.{who}", [found[name] / 1000], 1, "records", benchmark=benchmark)


def test_tail(benchmark):
    benchmark.pedantic(lambda: None, rounds=1)
    told("flinkbuf", late_in(1 if SMOKE else 60, 50_000, 100_000, 1 if SMOKE else 5, {}), benchmark)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1 if SMOKE else 600)
    parser.add_argument("--skipped", type=float, default=1 if SMOKE else 10, help="seconds that are left out before")
    parser.add_argument("--rate", type=int, default=50_000, help="records a second, of all subtasks")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--target", choices=["embedded", "local"], default="local")
    parser.add_argument("--rival", action="store_true", help="Spark's micro-batches, too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the job")
    parser.add_argument("--smoke", action="store_true", help="a second")
    options = parser.parse_args()
    settings = dict(each.split("=", 1) for each in options.set)
    given = options.seconds, options.rate, options.keys, options.skipped
    found = late_in(*given, settings, options.target)
    told("flinkbuf", found)
    told("machine", found["machine"])
    print(json.dumps({name: found[name] for name in ("records", "waited", "pauses")}))
    if options.rival:
        told("spark_micro_batches", late_in_spark(*given))


if __name__ == "__main__":
    main()
