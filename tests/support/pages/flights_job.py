"""The demo's stream over flights that are made up, on local processes: a job to look at, with a brake."""

from __future__ import annotations

import os
import time

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import FilterFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.demo import stream

FIRST_MINUTE = 22_616_640  # the first of 2013
AIRPORTS = ("JFK", "EWR", "LGA")
COUNT = 10**9
FLIGHT = Types.TUPLE([Types.LONG(), Types.INT(), Types.STRING(), Types.INT(), *[Types.STRING()] * 3, Types.INT()])


def flight(number):
    """Return the flight of this number: they leave two minutes after each other, a little out of order.

    Each of two subtasks gets one half of the numbers, and goes through the same year.
    """
    number %= COUNT // 2
    minute = FIRST_MINUTE + 2 * number - number * 7 % 90
    tail, airport = f"N{number * 31 % 997:03}UA", AIRPORTS[number % 3]
    return minute, number * 13 % 60, "UA", number % 2_000, tail, airport, "ORD", 110


class Brake(FilterFunction):
    """Lets everything through; slowly, while there is a file of its name."""

    def __init__(self, path):
        self.path = path

    def filter(self, value):
        if os.path.exists(self.path):
            self.step_on_it()
        return False

    def step_on_it(self):
        """Look busy: a task that sleeps in a function of the user's counts as one that works."""
        time.sleep(0.02)


def begin(directory, flights_per_second=1_500):
    """Start it on two local processes; returns what `execute_async` does."""
    settings = {
        "execution.target": "local",
        "rest.enabled": "true",
        "heartbeat.interval": "250 ms",
        "heartbeat.timeout": "10 s",
        "execution.checkpointing.interval": "700 ms",
        "execution.checkpointing.dir": f"file://{directory}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "100 ms",
        "jobmanager.archive.fs.dir": f"{directory}/archive",
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    environment.set_parallelism(2)
    source = DataGeneratorSource(flight, COUNT, flights_per_second, FLIGHT)
    flights = environment.from_source(source, WatermarkStrategy.no_watermarks(), "flights")
    results = stream.results_of(flights)
    results.rebalance().filter(Brake(f"{directory}/brake")).name("write results").print()
    return environment.execute_async("a year of flights")
