"""Runs a program one way, and gives what came of it."""

import tempfile
import time
from collections import Counter
from pathlib import Path

from flinkbuf.common import Configuration
from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.runtime.driver.savepoint_requests import SavepointError
from matrix.sources import Inputs, Shown
from matrix.ways import KILL, MOVE, RAISE

MOST_S = 60  # for all tasks to run


def environment(way, directory, savepoint=None):
    """The environment of one job."""
    options = {
        "execution.target": way.target,
        "pipeline.progress": "false",
        "rest.enabled": "false",
        "state.backend.type": way.backend if savepoint is None else way.backend_after,
        "state.backend.rocksdb.cache.entries": str(way.cache_entries),
        "pipeline.operator-chaining.enabled": "true" if way.is_chained else "false",
        "pipeline.max-parallelism": "16",
        "heartbeat.interval": "200 ms",
        "io.tmp.dirs": str(directory),
        "state.backend.rocksdb.localdir": str(directory),
    }
    if way.fault in (RAISE, KILL):
        options |= {
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": f"{directory}/checkpoints",
            "execution.checkpointing.unaligned.enabled": "true" if way.is_unaligned else "false",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "3",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    if savepoint is not None:
        options["execution.state-recovery.path"] = savepoint
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(way.width if savepoint is None else way.width_after)
    env.set_buffer_timeout(1)
    if way.is_batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def output_of(program, inputs):
    """All outputs of a program as one stream of texts."""
    made = program.build(inputs)
    outputs = made if isinstance(made, dict) else {"out": made}
    streams = []
    for name, stream in outputs.items():
        texts = stream.map(Shown(name, program.order_by)).uid(f"shown {name}").name(f"shown {name}")
        told = texts.map(inputs.stumble("output")).uid(f"told {name}")
        if program.output_width:
            texts.set_parallelism(program.output_width)
            told.set_parallelism(program.output_width)
        streams.append(told)
    return streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]


def run(program, way):
    """What came of a program: a list of (output, order, text)."""
    with tempfile.TemporaryDirectory(prefix="flinkbuf-matrix-") as directory:
        if way.fault == MOVE:
            return _moved(program, way, directory)
        stream = output_of(program, Inputs(environment(way, directory), way, directory))
        with stream.execute_and_collect() as records:
            return list(records)


def _moved(program, way, directory):
    results = []
    env = environment(way, directory)
    inputs = Inputs(env, way, directory)
    output_of(program, inputs).add_sink(results.append).uid("results").set_parallelism(1)
    client = env.execute_async()
    path = _savepoint(client, directory, inputs.count)
    client.get_job_execution_result().result()
    env = environment(way, directory, path)
    output_of(program, Inputs(env, way, directory, True)).add_sink(results.append).uid("results").set_parallelism(1)
    env.execute()
    return results


def _savepoint(client, directory, source_count):
    """Stop the job when its sources have come to where they wait."""
    deadline = time.monotonic() + MOST_S
    while time.monotonic() < deadline and not client.get_job_execution_result().done():
        if all(Path(directory, f"source{number} waits").exists() for number in range(1, source_count + 1)):
            break
        time.sleep(0.001)
    while True:
        try:
            return client.stop_with_savepoint(False, f"{directory}/savepoints").result()
        except SavepointError:  # some tasks do not run yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def gathered(records, order_by=None):
    """What came out, in a form that is equal for equal results: counts of texts, or texts in their order."""
    if order_by is None:
        return Counter((name, text) for name, _, text in records)
    found = {}
    for name, order, text in records:
        found.setdefault((name, order), []).append(text)
    return found
