"""Runs a query on PyFlink, by the file that flinkbuf runs, its imports changed; in the interpreter that has PyFlink.

build/pyflink/bin/python bench/nexmark/on_pyflink.py q0 --events 20000 [--set KEY=VALUE] [--results FILE]

PyFlink has no sources in Python: the events are made in a function behind a sequence of numbers, by the generator that
flinkbuf has, in the same process as the functions behind it.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Some of those that PyFlink's API can say: it has no joins and no co_group.
QUERIES = ("q0", "q1", "q2", "q5", "q11", "q17")


def translated(folder):
    """Copy the queries into a folder, where they are programs of PyFlink: their imports are changed, and what PyFlink
    lacks, two phases, is left out.
    """
    package = Path(folder, "nexmark")
    (package / "queries").mkdir(parents=True)
    (package / "__init__.py").touch()  # ours compiles the generator
    for path in [HERE / "rules.py", HERE / "events.py", *HERE.glob("queries/*.py")]:
        text = path.read_text().replace("from flinkbuf", "from pyflink").replace(", two_phase=True", "")
        (package / path.relative_to(HERE)).write_text(text)
    for path in HERE.glob("generator.*.so"):
        shutil.copy(path, package)
    shutil.copy(__file__, package)
    return package


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("query", choices=("src", *QUERIES))
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of PyFlink's")
    parser.add_argument("--results", help="a file for all results, as JSON; without it they are dropped")
    return parser.parse_args(arguments)


def stream_of(env, options):
    """Return the stream of the events, with their times."""
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.common.watermark_strategy import TimestampAssigner
    from pyflink.datastream import FlatMapFunction
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    from nexmark.events import LATENESS
    from nexmark.generator import Generator
    from nexmark.rules import splits_of

    splits = splits_of(options.events, options.parallelism, options.rate, options.seed)

    class Make(FlatMapFunction):
        """The event of each number; the numbers of a split come in order, to one subtask."""

        def open(self, runtime_context):
            self.made = {}

        def flat_map(self, number):
            index = min(number // splits[0].count, len(splits) - 1)
            if index not in self.made:
                self.made[index] = iter(Generator(splits[index]))
            yield next(self.made[index])

    class EventTime(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value.date_time

    numbers = env.from_source(
        NumberSequenceSource(0, options.events - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(LATENESS).with_timestamp_assigner(EventTime())
    return numbers.flat_map(Make()).assign_timestamps_and_watermarks(strategy)


def as_json(value):
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def run(options, folder):
    """Run it, and print how long it took; the functions find the package in the folder."""
    from importlib import import_module

    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment

    configuration = Configuration()
    for each in options.set:
        configuration.set_string(*each.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(options.parallelism)
    env.add_python_file(str(folder))
    begun = time.perf_counter()
    events = stream_of(env, options)
    results = events if options.query == "src" else import_module(f"nexmark.queries.{options.query}").query(events)
    if options.results:
        with results.execute_and_collect() as rows:
            Path(options.results).write_text(json.dumps([[as_json(field) for field in row] for row in rows]))
    else:  # what passes this filter would be collected
        for _ in results.filter(lambda row: False).execute_and_collect():
            pass
    print(json.dumps({"wall_s": time.perf_counter() - begun}))


def main(arguments=None):
    options = parsed(arguments)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
        translated(folder)
        sys.path[0] = folder  # instead of the folder of this file, where the queries are flinkbuf's
        run(options, folder)


if __name__ == "__main__":
    main()
