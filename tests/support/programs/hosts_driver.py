"""A driver of Spark on a host of its own: ``python hosts_driver.py SETTINGS``, settings as JSON.

Each line of its standard input is JSON, too, and names a door: a way to use flinkbuf, through which known data goes. It
answers each with a line: what came out, or the error, and after how many seconds. Doors that take a while say in the
shared directory that they are at work.
"""

import json
import os
import sys
import time
from pathlib import Path

import flinkbuf as fb

ROWS = 20_000
KEYS = 97


class Driver:
    """What the doors need."""

    def __init__(self, settings):
        from pyspark.sql import SparkSession

        self.settings, self.shared = settings, Path(settings["shared"])
        builder = SparkSession.builder.appName("hosts")
        for name, value in settings["spark"].items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.sc = self.session.sparkContext
        self.config = fb.NetworkConfig(data_port=settings["data_ports"], dead_peer_timeout_ms=3000)

    def wait_for_workers(self):
        """Without it the first worker that is there may run all tasks."""
        count = int(self.settings["spark"].get("spark.executor.instances", 3))
        deadline = time.monotonic() + 60
        while self.sc._jsc.sc().getExecutorMemoryStatus().size() <= count:
            assert time.monotonic() < deadline, "the executors do not come"
            time.sleep(0.05)


def numbers_of(driver, parts, rows=ROWS):
    return driver.sc.parallelize(range(rows), parts).map(lambda number: (number, f"name {number % KEYS}"))


def slowly(shared, seconds):
    """What has records come over so many seconds, and says that the tasks are at work."""

    def give(index, records):
        records = list(records)
        for number, record in enumerate(records):
            if number % 100 == 50:
                Path(shared, f"works-{index}").touch()
                time.sleep(seconds * 100 / len(records))
            yield record

    return give


def slow_batches(shared, seconds):
    """The same for batches: each is cut into pieces of 100 rows."""

    def give(batches):
        from pyspark import TaskContext

        for batch in batches:
            for begin in range(0, batch.num_rows, 100):
                Path(shared, f"works-{TaskContext.get().partitionId()}").touch()
                time.sleep(seconds * 100 / batch.num_rows)
                yield batch.slice(begin, 100)

    return give


def gathered(records):
    found = {}
    for number, name in records:
        found.setdefault(name, []).append(number)
    yield os.uname().nodename, {name: sorted(numbers) for name, numbers in found.items()}


def checked(parts, rows=ROWS):
    merged = {}
    for _, found in parts:
        assert not merged.keys() & found.keys(), "a key is in two partitions"
        merged.update(found)
    assert merged == {f"name {name}": list(range(name, rows, KEYS)) for name in range(KEYS)}, "records are not the same"
    return {"hosts": sorted({host for host, _ in parts})}


# ---- doors; each returns what is said of it


def exchange_rdd(driver, mode, parts=6, seconds=0):
    """Over so many seconds, with tasks that say that they are at work."""
    records = numbers_of(driver, parts)
    if seconds:
        records = records.mapPartitionsWithIndex(slowly(driver.settings["shared"], seconds))
    options = {"num_partitions": parts, "mode": mode, "config": driver.config}
    moved = fb.exchange(records, 1, type="n bigint, name string", **options)
    return checked(moved.mapPartitions(gathered).collect())


def exchange_frame(driver, mode, parts=6, seconds=0):
    """The same of a DataFrame."""
    frame = driver.session.range(0, ROWS, 1, parts).selectExpr("id as n", f"concat('name ', id % {KEYS}) as name")
    if seconds:
        frame = frame.mapInArrow(slow_batches(driver.settings["shared"], seconds), frame.schema)
    moved = fb.exchange(frame, "name", num_partitions=parts, mode=mode, config=driver.config)
    return checked(moved.rdd.mapPartitions(gathered).collect())


def async_maps(driver):
    import asyncio

    async def double(number):
        await asyncio.sleep(0.001)
        return 2 * number

    async def double_row(row):
        await asyncio.sleep(0.001)
        return (2 * row["id"],)

    doubled = fb.async_map(driver.sc.parallelize(range(3_000), 6), double).collect()
    assert doubled == list(range(0, 6_000, 2))
    frame = fb.async_map(driver.session.range(0, 3_000, 1, 6), double_row, schema="id bigint")
    assert sorted(row.id for row in frame.collect()) == list(range(0, 6_000, 2))
    return {}


def all_doors(driver):
    said = {}
    for mode in ("blocking", "pipelined"):
        said[f"rdd {mode}"] = exchange_rdd(driver, mode)
        said[f"frame {mode}"] = exchange_frame(driver, mode)
    async_maps(driver)
    return said


def job(driver, options=None):
    """A job with checkpoints in the shared directory, slow until the test lets it go."""
    import hosts_job

    return hosts_job.run(driver.settings, options)


def main(settings):
    driver = Driver(settings)
    driver.wait_for_workers()
    print("started", flush=True)
    for line in sys.stdin:
        began, said, arguments = time.monotonic(), {}, json.loads(line)
        door = globals()[arguments.pop("door")]
        try:
            said["result"] = door(driver, **arguments)
        except Exception as error:
            said["error"] = f"{type(error).__name__}: {error}"
        said["seconds"] = time.monotonic() - began
        print(json.dumps(said), flush=True)
    driver.session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
