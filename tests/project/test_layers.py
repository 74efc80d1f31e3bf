"""The shape of the project: which folder stands above which, and what exists for each stem.

The lists below are the only place that says it. A folder uses only folders that stand before it, and within a folder no
file uses one that uses it, directly or through others; so each can be read knowing only what was read before.
"""

import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import flinkbuf

ROOT = Path(__file__).parents[2]

# The layers of the core, lowest first: csrc/<layer>/<stem>.{h,c}, and all that carries the stem. The last ones are
# bindings alone.
C_LAYERS = ["ground", "memory", "value", "record", "columns", "io", "sort", "partition", "wire", "gate"]
LAYERS = [*C_LAYERS, "flow", "state", "operators", "task"]

# What a whole column has. A binding that counts references itself may have C of its own beside it, which includes
# Python.h: flinkbuf/_core/<layer>/<stem>.h.
PARTS = {
    "h": "csrc/{layer}/{stem}.h",
    "c": "csrc/{layer}/{stem}.c",
    "pxd": "flinkbuf/_core/{layer}/{stem}.pxd",
    "pyx": "flinkbuf/_core/{layer}/{stem}.pyx",
    "pyi": "flinkbuf/_core/{layer}/{stem}.pyi",
    "test.c": "tests/core/{layer}/test_{stem}.c",
    "test.py": "tests/core/{layer}/test_{stem}.py",
    "bench": "bench/bench_{stem}.py",
}

# What a column does without, and why. A part named here must not exist: the statement stays true.
C_ONLY = {"pxd", "pyx", "pyi", "test.py", "bench"}
LOOP_OVER_OBJECTS = {"h", "c", "test.c"}
PXD_ONLY = set(PARTS) - {"pxd"}
PAIRS_OF_KINDS = LOOP_OVER_OBJECTS | {"pyi", "test.py", "bench"}
DOES_WITHOUT = {
    "errors": ({"bench"}, "a list of codes"),
    "byte_order": (C_ONLY - {"pxd"} | {"c"}, "inline functions for C and for bindings"),
    "schedule_point": (C_ONLY | {"test.c"}, "nothing but in hostile builds, where stress_core.c runs"),
    "wide": (C_ONLY | {"c", "test.c"}, "attributes for loops of other stems"),
    "owner": (C_ONLY | {"c", "test.c"}, "one macro for C; all that embeds something is its test"),
    "xxh64": ({"bench"}, "measured with the exchange of a DataFrame"),
    "channel_selector": ({"test.c"}, "tested through its binding, which adds nothing but keys of objects"),
    "record_digest": ({"bench"}, "measured with the exchange of a DataFrame"),
    "lz4": (C_ONLY, "the bytes of buffer_codec, which binds, tests and times them"),
    "partition_file": ({"bench"}, "both files of a sort-merge partition; measured with it"),
    "partition_file_writer": (C_ONLY | {"test.c"}, "tested by test_partition_file.c"),
    "partition_file_reader": (C_ONLY | {"test.c"}, "tested by test_partition_file.c"),
    "read_buffer_pool": ({"bench"}, "measured with the partition"),
    "read_scheduler": (C_ONLY | {"test.c"}, "what sort_merge_partition reads with, and tests"),
    "sort_merge_reader": (C_ONLY | {"test.c"}, "the views of sort_merge_partition, which tests them"),
    "hash_data_buffer": (C_ONLY | {"test.c"}, "the memory of sort_merge_partition, which tests it"),
    "deque": (C_ONLY, "the queues of other structs; measured with them"),
    "data_view": (C_ONLY - {"pxd"}, "cursors for C and for bindings, which read them in bench_type_codec.py"),
    "calendar": (C_ONLY - {"pxd"}, "arithmetic of time_codec"),
    "text": (C_ONLY - {"pxd"}, "the bytes of text_codec"),
    "binary_row": (C_ONLY - {"pxd"}, "the bytes of row_data_codec"),
    "row_data_value": (C_ONLY - {"pxd"} | {"test.c"}, "values of row_data_codec, which is compared with Flink's bytes"),
    "row_data_codec": (PAIRS_OF_KINDS, "pairs in the table of type_codec, which binds and tests them"),
    "number": (C_ONLY - {"pxd"}, "the bytes of number_codec and container_codec"),
    "object": (C_ONLY - {"pxd"}, "the bytes of object_codec"),
    "type": (C_ONLY - {"pxd"} | {"test.c"}, "what type_codec describes and tests; fuzz_type.c measures any bytes"),
    "python_object": (PXD_ONLY, "declarations of Python's C API"),
    "inline_codec": (PXD_ONLY, "the fast path of every loop over values"),
    "inline_element": (PXD_ONLY, "the head of a record in the loops of record_writer and record_reader"),
    "codec": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "what all kinds stand on; met through type_codec"),
    "number_codec": (PAIRS_OF_KINDS, "pairs in the table of type_codec, which binds and tests them"),
    "text_codec": (PAIRS_OF_KINDS, "pairs in the table of type_codec, which binds and tests them"),
    "time_codec": (PAIRS_OF_KINDS, "pairs in the table of type_codec, which binds and tests them"),
    "container_codec": (PAIRS_OF_KINDS, "pairs in the table of type_codec, which binds and tests them"),
    "row_codec": (LOOP_OVER_OBJECTS | {"bench"}, "pairs in the table of type_codec; timed in bench_flow.py"),
    "object_leaf": (PAIRS_OF_KINDS, "values without parts of object_codec"),
    "object_row": (PAIRS_OF_KINDS, "rows of object_codec"),
    "object_key": (PAIRS_OF_KINDS, "objects as keys, of object_codec"),
    "object_codec": (LOOP_OVER_OBJECTS | {"pyi", "bench"}, "a pair in the table of type_codec; in bench_flow.py"),
    "variant_codec": (PAIRS_OF_KINDS, "pairs in the table of type_codec, which binds and tests them"),
    "conversion": (LOOP_OVER_OBJECTS | {"bench"}, "values through type_codec; it costs less than they do"),
    "own_value": (LOOP_OVER_OBJECTS - {"pyi"} | {"bench"}, "values of Python; timed in bench_keyed_state.py"),
    "key_token": (LOOP_OVER_OBJECTS | {"bench"}, "one look at the class of a key"),
    "type_codec": (LOOP_OVER_OBJECTS, "Python objects go in and come out: a walk in Cython"),
    "network_buffer_pool": (C_ONLY | {"test.c"}, "the global half of local_buffer_pool; bound and tested with it"),
    "sha256": (C_ONLY, "a few hundred bytes for each connection; Python has hashlib"),
    "frame": (C_ONLY - {"pxd"}, "what the I/O thread says and hears; tests say it by support/data/frames.py"),
    "wakeup": ({"bench"}, "a bell; timed by those who wait for each other in bench_network.py"),
    "error_cause": (C_ONLY, "bytes of two Java objects"),
    "buffer_manager": (C_ONLY, "the credit of a remote channel; the I/O thread's and the pool's"),
    "channel_map": (C_ONLY, "a hash table of the I/O thread"),
    "checkpoint_barrier": (C_ONLY, "a few bytes of an event, once a checkpoint"),
    "slice_list": (C_ONLY - {"pxd"}, "an array; bindings make bytes of what is in it"),
    "channel_persister": (C_ONLY, "the part of a channel that checkpoints need; met through gates"),
    "remote_channel": (C_ONLY - {"pxd"}, "a channel of an input gate, which binds it"),
    "preface": (
        C_ONLY - {"test.py"},
        "bytes that begin a connection; test_preface.py says them through a plain socket",
    ),
    "partition_client": ({"bench"}, "measured with gates and servers in bench_network.py; buffers alone in C"),
    "tcp": (C_ONLY - {"pxd"} | {"test.c"}, "system calls; test_connection.c makes each of them succeed and fail"),
    "poller": (C_ONLY | {"test.c"}, "two ways to wait; test_reactor.c and test_connection.c run on both"),
    "timer_queue": (C_ONLY, "timers of the I/O thread"),
    "file_region": (C_ONLY | {"c", "test.c"}, "two numbers and a count of references; test_connection.c sends it"),
    "file_sender": (C_ONLY | {"test.c"}, "system calls; test_connection.c sends files, measured in bench_connection.c"),
    "subpartition_view": (C_ONLY | {"c", "test.c"}, "a table of functions, bound by subpartition"),
    "result_partition_kind": (C_ONLY | {"c", "test.c"}, "a table; test_partition_kind.c has a kind of its own"),
    "partition_builders": (C_ONLY | {"h", "test.c"}, "the producer's side of result_partition, tested with it"),
    "pipelined_partition": (C_ONLY | {"test.c"}, "the kind that test_result_partition.c opens"),
    "carrier": (C_ONLY | {"test.c"}, "a reason that two owners share; test_dialer.c gives and reads it"),
    "dialer": ({"bench"}, "one call for each connection"),
    "file_channel": ({"bench"}, "system calls; measured through what is stored, in bench_bounded_data.py"),
    "io_executor": ({"bench"}, "one wake-up for each read or write of a disk"),
    "io_channel": ({"bench"}, "a file_channel and an io_executor"),
    "bounded_view": (C_ONLY | {"test.c"}, "a reader's half of bounded_partition, which is tested through it"),
    "data_buffer": (C_ONLY - {"pxd"}, "the log of record_buffers and batch_writer, and of sort_merge_partition"),
    "bounded_data": ({"pyx", "pyi", "test.py"}, "the files of bounded_partition"),
    "bounded_partition": ({"bench"}, "measured with its files in bench_bounded_data.py"),
    "buffer_header": ({"bench"}, "eight bytes for each buffer; measured with them in bench_bounded_data.py"),
    "admission": (C_ONLY, "connections of the I/O thread on their way in"),
    "partition_manager": ({"bench"}, "one look-up for each request"),
    "partition_server": ({"bench"}, "bench_connection.c measures what it stands on"),
    "connection": (C_ONLY, "sockets of the I/O thread, which takes no Python lock"),
    "record_run": (C_ONLY | {"test.c"}, "a part of record_sorter, tested with it"),
    "record_order": (C_ONLY | {"test.c"}, "a part of record_sorter, tested with it"),
    "record_merge": (C_ONLY | {"test.c"}, "a part of record_sorter, tested with it"),
    "record_batch": ({"pyx", "pyi", "test.py"}, "two loops that record_writer and record_reader call"),
    "arrow_c_data": (C_ONLY | {"c", "test.c"}, "two structures that Arrow has laid down"),
    "arrow_type": (C_ONLY, "formats; met through arrow_column"),
    "arrow_column": ({"test.c", "bench"}, "arrays of other libraries come from Python; a look at their offsets"),
    "arrow_value": (C_ONLY | {"test.c"}, "one value of arrow_rows"),
    "arrow_data_value": (C_ONLY | {"test.c"}, "one value of arrow_row_data"),
    "arrow_row_data": (C_ONLY, "loops of batch_writer, compared with the record path there"),
    "arrow_rows": (C_ONLY - {"pxd"} | {"test.c"}, "loops of batch_writer, compared with the record path there"),
    "arrow_key": (C_ONLY - {"pxd"} | {"test.c"}, "hashes of batch_writer, compared with those of records there"),
    "arrow_memory": (C_ONLY | {"test.c"}, "the buffers of arrow_builder"),
    "arrow_builder": (C_ONLY - {"pxd"} | {"test.c"}, "the columns of batch_reader"),
    "arrow_cell": (C_ONLY | {"test.c"}, "one value of arrow_records"),
    "arrow_data_cell": (C_ONLY | {"test.c"}, "one value of arrow_data_records"),
    "arrow_data_records": (C_ONLY | {"test.c"}, "loops of batch_reader, with every bit wrong there"),
    "arrow_records": (C_ONLY - {"pxd"}, "loops of batch_reader, with every bit wrong there"),
    "arrow_binary": (C_ONLY - {"pxd"}, "loops of binary_column"),
    "range_key": (C_ONLY - {"pxd"}, "the keys of range_selector, compared there with the values"),
    "range_bounds": (C_ONLY - {"pxd"}, "the bounds of range_selector"),
    "arrow_range": (C_ONLY - {"pxd"} | {"test.c"}, "keys of rows, compared with those of records in range_selector"),
    "slot_table": (C_ONLY, "the table of key_slots, which binds and times it"),
    "key_slots": (LOOP_OVER_OBJECTS, "keys as columns; its loops are in slot_table"),
    "slot_rows": ({"bench"}, "timed as a whole join in bench_columns.py"),
    "row_order": (
        LOOP_OVER_OBJECTS | {"pxd", "test.py", "bench"},
        "three loops over numpy's numbers; tested with the columns that it orders, in test_column_exchange.py",
    ),
    "session_slots": ({"bench"}, "sessions of columns are timed as whole programs, in bench_columns.py"),
    "count_slots": ({"bench"}, "count windows of columns are timed as whole programs, in bench_columns.py"),
    "slot_aggregate": ({"test.py", "bench"}, "what the aggregates of slot_aggregates have in common, tested with them"),
    "value_aggregates": (LOOP_OVER_OBJECTS | {"pxd", "test.py", "bench"}, "aggregates that slot_aggregates makes"),
    "slot_aggregates": (LOOP_OVER_OBJECTS | {"pxd", "bench"}, "its loops are in slot_aggregate; in bench_key_slots.py"),
    "slot_ranks": ({"test.py", "bench"}, "compared with plain Python under column_ranks; timed in bench_columns.py"),
    "range_selector": (LOOP_OVER_OBJECTS | {"bench"}, "the loops are in arrow_range; timed in bench_batch_writer.py"),
    "numpy_batch": (
        LOOP_OVER_OBJECTS | {"pxd", "test.py", "bench"},
        "arrays given to batch_writer, whose tests compare them with those of pyarrow",
    ),
    "batch_writer": (LOOP_OVER_OBJECTS, "columns go in: its loops are in arrow_rows"),
    "batch_reader": (LOOP_OVER_OBJECTS | {"bench"}, "columns come out; timed in bench_batch_writer.py"),
    "binary_column": (LOOP_OVER_OBJECTS | {"pxd"}, "two functions; their loops are in arrow_binary"),
    "batch_records": (LOOP_OVER_OBJECTS | {"bench"}, "records to columns and back; timed in bench_streaming.py"),
    "output_flusher": ({"bench"}, "a timer: it is not on the path of a record"),
    "buffer_debloater": ({"bench"}, "a few multiplications every 200 ms"),
    "input_gate": ({"bench"}, "measured with its reader in bench_record_reader.py"),
    "union_input_gate": ({"bench"}, "a few gates in turn"),
    "record_buffers": (LOOP_OVER_OBJECTS | {"bench"}, "a loop in Cython over Python objects; in bench_flow.py"),
    "record_writer": (LOOP_OVER_OBJECTS, "Python objects go in: a loop in Cython"),
    "record_reader": (LOOP_OVER_OBJECTS, "Python objects come out: a loop in Cython"),
    "channel_state": (
        LOOP_OVER_OBJECTS | {"test.py", "bench"},
        "once a checkpoint; tested with what stands on it, in tests/streaming/checkpoint/test_channel_state.py",
    ),
    "record_exchange": (LOOP_OVER_OBJECTS, "Python objects go in and come out: a loop in Cython"),
    "async_call": (
        LOOP_OVER_OBJECTS | {"bench"},
        "steps coroutines, which are Python objects; timed in bench_async_io.py",
    ),
    "entry_cache": (LOOP_OVER_OBJECTS | {"bench"}, "timed with the state that it keeps, in bench_large_state.py"),
    "state_table": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "the dicts of keyed_state, tested and timed with it"),
    "function_results": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "what operators do with results; met through each"),
    "keyed_state": (LOOP_OVER_OBJECTS, "one look into a dict"),
    "ttl_state": (LOOP_OVER_OBJECTS | {"bench"}, "keyed_state with stamps"),
    "state_codec": (
        LOOP_OVER_OBJECTS | {"test.py", "bench"},
        "tested in test_state_backend.py, timed with keyed_state",
    ),
    "rocksdb_table": (
        LOOP_OVER_OBJECTS | {"test.py", "bench"},
        "tested in test_rocksdb_backend.py; its store is the slower part",
    ),
    "object_tables": (
        LOOP_OVER_OBJECTS | {"pxd", "test.py", "bench"},
        "tested with the log of a key group, under spark.streams; timed in bench_transform_with_state.py",
    ),
    "timer_service": (LOOP_OVER_OBJECTS, "a heap and a dict"),
    "time_window": (LOOP_OVER_OBJECTS | {"bench"}, "two numbers; timed in bench_window_operator.py"),
    "window_context": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "what operator and functions say to each other"),
    "window_operator": (LOOP_OVER_OBJECTS, "calls of the user's functions"),
    "incremental_window_operator": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "what the next two have in common"),
    "session_window_operator": (LOOP_OVER_OBJECTS | {"bench"}, "timed in bench_window_operator.py"),
    "aligned_window_operator": (LOOP_OVER_OBJECTS | {"bench"}, "timed in bench_window_operator.py"),
    "aggregate_operator": (LOOP_OVER_OBJECTS | {"bench"}, "timed in bench_window_operator.py"),
    "plain_function": (LOOP_OVER_OBJECTS | {"bench"}, "a few steps of C in place of a call; timed by Nexmark"),
    "plain_node": (LOOP_OVER_OBJECTS | {"pyi", "test.py", "bench"}, "what plain_function does, part by part"),
    "plain_code": (LOOP_OVER_OBJECTS | {"pyi", "test.py", "bench"}, "what plain_function reads, once a function"),
    "combining_operator": (LOOP_OVER_OBJECTS | {"bench"}, "timed by the queries of Nexmark that combine"),
    "combined_window_operator": (LOOP_OVER_OBJECTS | {"bench"}, "aligned_window_operator with merged contents"),
    "watermark_generator": (LOOP_OVER_OBJECTS | {"bench"}, "a comparison; timed with its operator"),
    "timestamps_operator": (LOOP_OVER_OBJECTS | {"bench"}, "timed in bench_window_operator.py"),
    "process_operator": (LOOP_OVER_OBJECTS, "calls of the user's functions"),
    "broadcast_operator": (LOOP_OVER_OBJECTS | {"bench"}, "calls of the user's functions, as process_operator"),
    "interval_join_operator": (LOOP_OVER_OBJECTS | {"bench"}, "calls of the user's functions, as process_operator"),
    "key_context": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "two fields; met through state and timers"),
    "stream_operator": (LOOP_OVER_OBJECTS | {"test.py", "bench"}, "what operators derive from; met through each"),
    "delayed_operator": (LOOP_OVER_OBJECTS | {"pyi", "test.py", "bench"}, "tested as what derives from it"),
    "function_operator": (LOOP_OVER_OBJECTS | {"bench"}, "calls of the user's functions; timed in bench_streaming.py"),
    "batch_operator": (
        LOOP_OVER_OBJECTS | {"test.py", "bench"},
        "calls of the user's functions; tested in test_map_batches.py, timed in bench_streaming.py",
    ),
    "iterator_handover": (LOOP_OVER_OBJECTS | {"bench"}, "a loop over an iterator; timed in bench_source_operator.py"),
    "source_operator": (LOOP_OVER_OBJECTS, "Python objects come out of iterators: loops in Cython"),
    "sink_operator": (LOOP_OVER_OBJECTS | {"bench"}, "calls of the user's functions; timed in bench_streaming.py"),
    "task_mailbox": (LOOP_OVER_OBJECTS | {"bench"}, "a few mails a second"),
    "operator_chain": (LOOP_OVER_OBJECTS | {"bench"}, "calls between operators; timed in bench_streaming.py"),
    "record_writer_output": (LOOP_OVER_OBJECTS | {"bench"}, "one call a record; timed in bench_streaming.py"),
    "input_status": (PXD_ONLY, "five numbers"),
    "stream_input": (LOOP_OVER_OBJECTS | {"bench"}, "the loop of a task; timed in bench_streaming.py"),
    "sorted_input": (
        LOOP_OVER_OBJECTS | {"test.py", "bench"},
        "met through tasks, in test_batch.py; timed in bench_batch.py",
    ),
    "thread_frames": (LOOP_OVER_OBJECTS | {"pxd", "bench"}, "a look at another thread, when a task is cancelled"),
}

# The package, lowest first: modules by name; folders, which are all of their files, by name and slash. `_core` stands
# for all columns above, "" for flinkbuf itself.
PACKAGE = [
    *("_version", "lazy_names", "moved_modules", "errors", "log", "_core"),
    *("config", "metrics", "private_files", "processes", "owned_directory"),
    *("types/", "network/", "control/", "records/", "async_io/", "checkpoints/", "partition_files/"),
    *("streaming.time/", "streaming.state/", "streaming.chain/", "streaming.windows/", "streaming.columns/"),
    *("streaming.file_place", "streaming.sources/", "streaming.postgres/", "streaming.sinks/", "streaming.lakes/"),
    *("streaming.checkpoint/", "streaming.task/", "streaming"),
    *("runtime.graph/", "runtime.protocol/", "runtime.process/", "runtime.manager/"),
    *("runtime.scheduler/", "runtime.checkpoint/"),
    *("runtime.master/", "runtime.picture/", "runtime.driver/", "runtime"),
    *("targets/", "web/", "common/"),
    *("datastream.program/", "datastream/", "datastream.connectors/", "datastream.formats/", "testing/"),
    *("spark/", "spark.frames/", "spark.stage/", "spark.data_source/", "spark.exchange/", "spark.async_map/"),
    *("spark.groups/", "spark.streams/", "spark"),
    *("events", "table", "", "demo/", "commands/", "__main__"),
]


INCLUDE = r'^\s*#\s*include\s+"([^"]+)"'


def source_files(folder, *suffixes):
    return sorted(path for path in (ROOT / folder).glob("*/*") if path.suffix in suffixes)


def name(path):
    return path.relative_to(ROOT).as_posix()


CORE_FILES = source_files("flinkbuf/_core", ".pxd", ".pyx")
CORE_HEADERS = source_files("flinkbuf/_core", ".h")
C_FILES = sorted(path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".h", ".c"))
PYTHON_FILES = sorted(path for path in (ROOT / "flinkbuf").rglob("*.py") if "_core" not in path.parts)
LAYER_OF = {path.stem: path.parent.name for path in C_FILES + CORE_FILES}


def module_of(path):
    parts = path.relative_to(ROOT / "flinkbuf").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place_of(path):
    """Return what of PACKAGE a module belongs to, None where it has no place."""
    folder = ".".join(path.parent.relative_to(ROOT / "flinkbuf").parts) + "/"
    return next((place for place in (module_of(path), folder) if place in PACKAGE), None)


PLACE_OF = {"_core": "_core"} | {module_of(path): place_of(path) for path in PYTHON_FILES}


def is_before(module, other):
    """Whether the place of a module is above that of another one."""
    return PACKAGE.index(PLACE_OF[module]) < PACKAGE.index(PLACE_OF[other])


def check_that_none_goes_round(uses):
    """Raise an error that shows the circle, where something uses itself through others: of each, what it uses."""
    TopologicalSorter({user: set(used) - {user} for user, used in uses.items()}).prepare()


def imported_modules(tree, importer):
    """The modules of flinkbuf that a file names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for full in names:
            if full.split(".")[0] == "flinkbuf":
                inner = full.removeprefix("flinkbuf").removeprefix(".")
                # `from flinkbuf.x import y`: y may be a module or a name in one.
                while inner not in PLACE_OF and "." in inner and not inner.startswith("_core."):
                    inner = inner.rpartition(".")[0]
                yield "_core" if inner.startswith("_core") else inner if inner in PLACE_OF else ""


def cimported_modules(text):
    """The modules of flinkbuf that a .pxd or .pyx names, with `from … import` and `from … cimport`."""
    return re.findall(r"^\s*(?:from|c?import)\s+flinkbuf\.([\w.]+)", text, re.MULTILINE)


@pytest.mark.parametrize("stem", sorted(LAYER_OF))
def test_column_has_all_its_parts(stem):
    without, reason = DOES_WITHOUT.get(stem, (set(), ""))
    parts = {part: pattern.format(stem=stem, layer=LAYER_OF[stem]) for part, pattern in PARTS.items()}
    found = {part for part, path in parts.items() if (ROOT / path).exists()}
    missing = {parts[part] for part in parts.keys() - without - found}
    assert not missing, f"{stem}: write these, or state in DOES_WITHOUT why there are none"
    unexpected = {parts[part] for part in without & found}
    assert not unexpected, f"{stem}: exists, but DOES_WITHOUT says there is none ({reason})"


def included_files(text):
    """What a C file includes between quotes, as (layer, stem)."""
    return [tuple(path.removesuffix(".h").rpartition("/")[::2]) for path in re.findall(INCLUDE, text, re.MULTILINE)]


@pytest.mark.parametrize("path", C_FILES + CORE_FILES + CORE_HEADERS, ids=name)
def test_file_lies_in_the_layer_of_its_stem(path):
    assert LAYER_OF.get(path.stem) == path.parent.name


@pytest.mark.parametrize("path", C_FILES + CORE_HEADERS, ids=name)
def test_c_file_includes_nothing_of_a_layer_above(path):
    for folder, included in included_files(path.read_text()):
        layer = folder.removeprefix("_core/")
        assert LAYER_OF.get(included) == layer, f"{name(path)} includes {folder}/{included}.h: name its layer"
        assert LAYERS.index(layer) <= LAYERS.index(path.parent.name), f"{name(path)} looks down at {included}"


@pytest.mark.parametrize("path", CORE_HEADERS, ids=name)
def test_header_of_a_binding_belongs_to_it(path):
    assert path.with_suffix(".pxd").exists()


def test_no_stem_uses_one_that_uses_it():
    """By what C includes and bindings import together."""
    uses = {stem: set() for stem in LAYER_OF}
    for path in C_FILES + CORE_HEADERS:
        uses[path.stem].update(included for _, included in included_files(path.read_text()))
    for path in CORE_FILES:
        uses[path.stem].update(module.rpartition(".")[2] for module in cimported_modules(path.read_text()))
    check_that_none_goes_round(uses)


@pytest.mark.parametrize("path", CORE_FILES, ids=name)
def test_binding_holds_no_c_but_in_headers(path):
    # What stands in a string is formatted, compiled with warnings and read by nobody.
    assert not re.search(r'cdef extern from \*:\s*"""', path.read_text())


@pytest.mark.parametrize("path", C_FILES, ids=name)
def test_c_file_knows_nothing_of_python(path):
    assert not re.search(r"#\s*include\s*[<\"]Python\.h|\bPy[A-Z_]\w*\s*\(|\bPyObject\b", path.read_text())


@pytest.mark.parametrize("path", CORE_FILES, ids=name)
def test_binding_imports_nothing_of_a_layer_above(path):
    for module in cimported_modules(path.read_text()):
        if module.startswith("_core."):
            layer, _, stem = module.removeprefix("_core.").partition(".")
            assert LAYER_OF.get(stem) == layer, f"{name(path)} imports {module}, which is none"
            assert LAYERS.index(layer) <= LAYERS.index(path.parent.name), f"{name(path)} looks down at {stem}"
        else:
            assert is_before(module, "_core"), f"{name(path)} looks down at {module}"


# Of a file that another one of its folder uses, and whose methods give objects of that one: it may name its
# types for type checkers, under `if TYPE_CHECKING`. Environments make streams, streams make windows, and these streams;
# each can be asked for the one that made it.
NAMES_TYPES_OF = {
    "datastream.columns": ["datastream.data_stream"],
    "datastream.connected_streams": ["datastream.data_stream"],
    "datastream.data_stream": ["datastream.stream_execution_environment"],
    "datastream.joined_streams": ["datastream.columns", "datastream.data_stream"],
    "datastream.windowed_stream": ["datastream.data_stream", "datastream.stream_execution_environment"],
}


def imported_for_checkers(tree, importer):
    """The modules of flinkbuf that a file names for type checkers alone."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {module for block in blocks for module in imported_modules(block, importer)}


def test_a_type_of_a_later_file_is_named_for_checkers_only():
    for module, later in NAMES_TYPES_OF.items():
        path = ROOT / "flinkbuf" / f"{module.replace('.', '/')}.py"
        tree = ast.parse(path.read_text())
        assert set(later) <= imported_for_checkers(tree, module), f"{module} names no such type: take it out"
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
        assert not set(later) & set(imported_modules(tree, module)), f"{module} looks down"


def modules_used(path):
    """The modules that a file uses, but for those of which it may name types."""
    found = imported_modules(ast.parse(path.read_text()), name(path))
    return set(found) - set(NAMES_TYPES_OF.get(module_of(path), []))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name)
def test_module_imports_nothing_of_a_folder_above(path):
    module = module_of(path)
    assert PLACE_OF[module] is not None, "give its folder, or the module, a place in PACKAGE"
    assert not {other for other in modules_used(path) if is_before(module, other)}, f"{name(path)} looks down"


def test_no_module_uses_one_that_uses_it():
    check_that_none_goes_round({module_of(path): modules_used(path) for path in PYTHON_FILES})


@pytest.mark.parametrize("path", source_files("flinkbuf/_core", ".pyi"), ids=name)
def test_stub_belongs_to_a_binding(path):
    assert path.with_suffix(".pyx").exists()


def test_every_public_name_comes_from_what_stands_before_them():
    homes = {module.removeprefix("flinkbuf.") for module in flinkbuf._MODULE_OF.values()} | set(flinkbuf._SUBJECTS)
    later = {home for home in homes if not home.startswith("_core.") and not is_before(home, "")}
    assert homes and not later, "flinkbuf/__init__.py looks down"


# What decides does nothing else: time and chance come in as arguments, so a test sets them. Folders end in a slash.
DECIDERS = [
    "streaming/time/valve.py",
    "streaming/time/combined_watermark.py",
    "streaming/time/watermark_strategy.py",
    "streaming/windows/",
    "control/message_codec.py",
    "control/secure_link.py",
    "control/tls_layer.py",
    "checkpoints/locations.py",
    "checkpoints/metadata.py",
    "checkpoints/ha_protocol.py",
    "runtime/master/restart_strategy.py",
    "runtime/scheduler/heartbeat.py",
    "runtime/scheduler/slots.py",
    "runtime/scheduler/regions.py",
    "runtime/scheduler/partition_tracker.py",
    "runtime/scheduler/slot_assignment.py",
    "runtime/scheduler/execution_state.py",
    "runtime/scheduler/manager.py",
    "runtime/scheduler/execution_graph.py",
    "runtime/scheduler/manager_table.py",
    "runtime/scheduler/deployment_builder.py",
    "runtime/master/failure_history.py",
    "runtime/scheduler/cancellations.py",
    "runtime/scheduler/restarts.py",
    "runtime/scheduler/scheduler.py",
    "runtime/scheduler/job_life.py",
    "runtime/scheduler/task_control.py",
    "runtime/checkpoint/checkpoint_config.py",
    "runtime/checkpoint/checkpoint_failures.py",
    "runtime/checkpoint/checkpoint_plan.py",
    "runtime/checkpoint/checkpoint_requests.py",
    "runtime/checkpoint/shared_files.py",
    "runtime/checkpoint/completed_checkpoints.py",
    "runtime/checkpoint/pending_checkpoint.py",
    "runtime/checkpoint/checkpoint_statistics.py",
    "runtime/checkpoint/state_assignment.py",
    "runtime/checkpoint/checkpoint_coordinator.py",
    "runtime/master/failover.py",
    "runtime/master/job_master.py",
    "runtime/picture/job_picture.py",
    "runtime/picture/job_details.py",
    "runtime/picture/page_picture.py",
    "runtime/picture/metric_names.py",
    "runtime/manager/task_actions.py",
    "runtime/manager/task_executor.py",
    "spark/stage/stage_attempts.py",
    "spark/stage/stage_runs.py",
    "_core/operators/watermark_generator.pyx",
    "_core/operators/timestamps_operator.pyx",
    "_core/state/timer_service.pyx",
    "_core/operators/time_window.pyx",
    "_core/operators/window_context.pyx",
    "_core/operators/window_operator.pyx",
    "_core/operators/incremental_window_operator.pyx",
    "_core/operators/aligned_window_operator.pyx",
    "_core/operators/combining_operator.pyx",
    "_core/operators/combined_window_operator.pyx",
    "_core/operators/session_window_operator.pyx",
]
DOERS = "time random threading socket asyncio uuid"


def doers_in(text):
    """What a file imports of the modules that read a clock, draw lots, start threads or talk to others."""
    imported = re.findall(r"^\s*(?:from|c?import)\s+(\w+)", text, re.MULTILINE)
    return sorted(set(imported) & set(DOERS.split()))


@pytest.mark.parametrize("decider", DECIDERS)
def test_what_decides_reads_no_clock_and_talks_to_nobody(decider):
    path = ROOT / "flinkbuf" / decider
    files = sorted(path.glob("*.py")) if decider.endswith("/") else [path]
    assert files
    assert {name(file): doers_in(file.read_text()) for file in files} == {name(file): [] for file in files}


def test_a_decider_that_does_would_be_found():
    assert doers_in("import time\n    from threading import Lock\nfrom flinkbuf.time import x\n") == [
        "threading",
        "time",
    ]


def test_lists_name_only_what_exists():
    assert not set(DOES_WITHOUT) - set(LAYER_OF)
    assert set(PACKAGE) == set(PLACE_OF.values())


def test_folders_hold_nothing_else():
    assert {path.name for path in (ROOT / "csrc").iterdir()} == set(C_LAYERS)
    assert {path.parent.name for path in CORE_FILES} == set(LAYERS)
    assert {path.suffix for path in (ROOT / "csrc").glob("*/*")} <= {".h", ".c"}
    assert {path.name for path in (ROOT / "flinkbuf" / "_core").rglob("*.py")} == {"__init__.py"}


def test_no_room_is_larger_than_one_subject():
    """Of more than 25 files, or stems, a reader finds none by looking: such a room is two."""
    code = {".py", ".js", ".c", ".h", ".java"}  # what is data, such as files of golden, nobody looks for by its name
    files = [path for top in ("flinkbuf", "tests") for path in (ROOT / top).rglob("*") if path.suffix in code]
    sizes = Counter(LAYER_OF.values())
    sizes |= Counter(path.parent.relative_to(ROOT).as_posix() for path in files if "_core" not in path.parts)
    assert sizes["tests"] and sizes["tests/support"] and sizes["flinkbuf/web/static"]
    assert not {room: size for room, size in sizes.items() if size > 25}


def test_a_file_that_looks_down_would_be_found():
    imports = "import flinkbuf.records.record_reader\nfrom flinkbuf.commands import cli\n"
    imports += "from flinkbuf._core.memory.buffer import Buffer\n"
    imports += "from flinkbuf import Row\nfrom flinkbuf.spark.exchange.exchange import exchange\n"
    found = list(imported_modules(ast.parse(imports), "x"))
    assert found == ["records.record_reader", "commands.cli", "_core", "", "spark.exchange.exchange"]
    cimports = "from flinkbuf._core.memory.buffer cimport (\n  x)\ncimport flinkbuf._core.ground.wakeup as w\n"
    cimports += "    from flinkbuf.types.values import Row\n"
    assert cimported_modules(cimports) == ["_core.memory.buffer", "_core.ground.wakeup", "types.values"]
    includes = '#include <stdio.h>\n# include "memory/buffer.h"\n#include "frame.h"\n'
    assert included_files(includes) == [("memory", "buffer"), ("", "frame")]
    assert is_before("errors", "config") and is_before("types.row", "web.router")
    assert not is_before("types.row", "types.types") and not is_before("web.router", "types.row")


def test_files_that_use_each_other_would_be_found():
    check_that_none_goes_round({"a": ["a", "b"], "b": ["c"]})
    with pytest.raises(CycleError):
        check_that_none_goes_round({"a": ["b"], "b": ["c"], "c": ["a"]})


# Names that a header declares beside fb_<stem>_*: the second noun of a pair that is one thing.
SECOND_NOUNS = {
    "errors": ["strerror"],
    "file_channel": ["file_failure"],  # what went wrong with it
    "file_region": ["shared_file"],  # the file of which it is a part
    "buffer_builder": ["buffer_consumer"],  # the reading half of the same buffer
    "bounded_data": ["bounded_reader"],  # the reading half
    "bounded_view": ["bounded_readers"],  # all of them
    "read_buffer_pool": ["read_consumer", "read_pool"],  # one reader's share
    "data_view": ["data_input", "data_output"],  # Flink's DataInputView and DataOutputView
}
DECLARED = r"^(?:static inline )?(?:const )?(?:struct |enum )?\w+[ *]+(fb_\w+)\("


def declared_functions(text):
    return re.findall(DECLARED, text, re.MULTILINE)


@pytest.mark.parametrize("path", [path for path in C_FILES if path.suffix == ".h"], ids=name)
def test_prefix_is_stem(path):
    prefixes = tuple(f"fb_{noun}" for noun in [path.stem, *SECOND_NOUNS.get(path.stem, [])])
    others = [function for function in declared_functions(path.read_text()) if not function.startswith(prefixes)]
    assert not others, f"what {path.stem}.h declares is fb_{path.stem}_*"


def test_a_static_function_has_its_name_alone():
    """A profile shows a name without its file, and `git grep` should find one definition."""
    homes = {}
    for path in C_FILES:
        for function in set(re.findall(r"^static [^=;{}\n]*?(\w+)\([^;]*?\) \{", path.read_text(), re.MULTILINE)):
            homes.setdefault(function, []).append(name(path))
    assert not {function: where for function, where in homes.items() if len(where) > 1}


def test_a_wrong_prefix_would_be_found():
    header = (
        "int fb_connection_connect(struct fb_reactor* self);\nstatic inline bool fb_a_is(const struct fb_a* self) {\n"
    )
    header += "struct fb_b* fb_b_open(void);\nconst char* fb_c_text(int code);\nuint8_t* fb_d(void);\n"
    assert declared_functions(header) == ["fb_connection_connect", "fb_a_is", "fb_b_open", "fb_c_text", "fb_d"]
