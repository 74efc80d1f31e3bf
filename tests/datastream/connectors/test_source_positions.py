"""Every source goes on where a checkpoint was: wherever it is taken, and at another parallelism, too."""

import gzip
import pickle
import random
from collections import Counter

import cloudpickle
import pytest
from support.worlds.source_attempt import SourceAttempt
from support.worlds.surroundings import Surroundings

from flinkbuf.common.watermark_strategy import WatermarkStrategy
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    StreamFormat,
)
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flinkbuf.datastream.formats.json import JsonLinesFormat
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source_factories import CollectionSourceFactory, source_factory_of
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.types.types import Types
from flinkbuf.types.values import Row, StreamRecord, Watermark


class Attempt(SourceAttempt):
    """All subtasks of a source, from the beginning or from what `checkpoint` returned."""

    def emit(self, count, chance):
        """Let subtasks, drawn by chance, emit so many records in all, or as many as there are."""
        idle_turns = 0
        while len(self.values) < count and not all(around.has_ended for around in self.subtasks) and idle_turns < 200:
            around = chance.choice(self.subtasks)
            around.mailbox.run()
            before = len(self.values)
            around.has_ended = around.operator.emit_next(around.output, 1) == InputStatus.END_OF_INPUT
            idle_turns = 0 if len(self.values) > before else idle_turns + 1
            if idle_turns:
                self.time.advance_to(self.time.now_ms() + 100)


def write_files(folder):
    lines = [f"line {number}" + " and more" * (number % 3) for number in range(24)]
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("\n".join(lines[:15]) + "\n")
    (folder / "sub" / "b.txt").write_text("\r\n".join(lines[15:20]))
    (folder / "sub" / "c.txt.gz").write_bytes(gzip.compress("\n".join(lines[20:]).encode()))
    return lines


def number_sequence(folder):
    return NumberSequenceSource(1, 20), list(range(1, 21))


def data_generator(folder):
    return DataGeneratorSource(lambda number: f"<{number}>", 20), [f"<{number}>" for number in range(20)]


def data_generator_with_a_rate(folder):
    return DataGeneratorSource(lambda number: number, 20, 10), list(range(20))


def lines_of_files(folder):
    lines = write_files(folder)
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build(), lines


def lines_of_ranges(folder):
    lines = write_files(folder)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    return builder.set_file_enumerator(FileEnumeratorProvider(40)).build(), lines


def json_lines(folder):
    values = [{"n": number} for number in range(12)]
    (folder / "a.json").write_bytes(b"".join(map(JsonLinesFormat.encoder(), values)))
    builder = FileSource.for_record_stream_format(JsonLinesFormat(), str(folder))
    return builder.set_file_enumerator(FileEnumeratorProvider(30)).build(), values


def csv_rows(folder):
    (folder / "a.csv").write_text("".join(f"{number},x{number}\n" for number in range(12)))
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").build()
    builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(folder))
    return builder.build(), [(number, f"x{number}") for number in range(12)]


def parquet_rows(folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet_files = pytest.importorskip("pyarrow.parquet")

    from flinkbuf.datastream.formats.parquet import ParquetColumnarRowInputFormat

    table = pyarrow.table({"id": list(range(12))})
    parquet_files.write_table(table, str(folder / "a.parquet"), row_group_size=4)
    format = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["id"], [Types.LONG()]), batch_size=3)
    builder = FileSource.for_bulk_file_format(format, str(folder))
    return builder.set_file_enumerator(FileEnumeratorProvider(60)).build(), [(number,) for number in range(12)]


def watched_directory(folder):
    lines = write_files(folder)
    from flinkbuf.types.duration import Duration

    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    builder = builder.set_file_enumerator(FileEnumeratorProvider(40))
    return builder.monitor_continuously(Duration.of_millis(50)).build(), lines


SOURCES = [
    number_sequence,
    data_generator,
    data_generator_with_a_rate,
    lines_of_files,
    lines_of_ranges,
    json_lines,
    csv_rows,
    parquet_rows,
    watched_directory,
]


def counted(values):
    return Counter(repr(tuple(value) if isinstance(value, Row) else value) for value in values)


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 3), (3, 1), (2, 5)])
def test_stopped_at_every_record_it_goes_on_with_the_next(tmp_path, make, before, after):
    source, expected = make(tmp_path)
    chance = random.Random(7)
    for cut in range(len(expected) + 1):
        first = Attempt(source, before)
        first.emit(cut, chance)
        assert len(first.values) == cut
        done, checkpoint = first.values, first.checkpoint()
        first.emit(cut + 3, chance)  # behind the checkpoint: it comes again
        first.close()
        second = Attempt(source, after, checkpoint)
        second.emit(len(expected) + 1, chance)
        second.close()
        assert counted(done + second.values) == counted(expected), cut


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_a_chain_of_failures_at_any_parallelism(tmp_path, make, seed):
    source, expected = make(tmp_path)
    chance = random.Random(seed)
    strategy = WatermarkStrategy.for_monotonous_timestamps() if seed % 2 else None
    done, checkpoint = [], None
    for number in range(1, 6):
        attempt = Attempt(source, chance.randint(1, 4), checkpoint, strategy)
        attempt.emit(chance.randint(0, 8), chance)
        done += attempt.values
        checkpoint = attempt.checkpoint(number)
        attempt.emit(len(attempt.values) + chance.randint(0, 4), chance)
        attempt.close()
    last = Attempt(source, chance.randint(1, 4), checkpoint, strategy)
    last.emit(len(expected) + 1, chance)
    last.close()
    assert counted(done + last.values) == counted(expected)


def test_a_directory_that_is_watched_gives_files_that_came_in_between(tmp_path):
    source, expected = watched_directory(tmp_path)
    chance = random.Random(3)
    first = Attempt(source, 2)
    first.emit(5, chance)
    done, checkpoint = first.values, first.checkpoint()
    first.close()
    (tmp_path / "z.txt").write_text("new 1\nnew 2\n")
    second = Attempt(source, 3, checkpoint)
    second.emit(len(expected), chance)
    second.close()
    assert counted(done + second.values) == counted([*expected, "new 1", "new 2"])


# Sources of one subtask that are no FLIP-27 sources

ELEMENTS = [StreamRecord("a", 1), Watermark(1), "b", StreamRecord("c", 5), Watermark(9), "d"]


def from_a_function():
    return iter(ELEMENTS)


@pytest.mark.parametrize(
    "factory",
    [
        CollectionSourceFactory(range(6)),
        CollectionSourceFactory(["a", None, ("b", 2)]),
        CollectionSourceFactory([1, 2, 3], Types.LONG()),
        source_factory_of(ELEMENTS),
        source_factory_of(from_a_function),
    ],
    ids=["range", "list", "typed", "iterable", "function"],
)
def test_a_collection_or_an_iterable_goes_on_behind_what_was_emitted(factory):
    def run(snapshot=None, records=None):
        around = Surroundings()
        operator = around.open(pickle.loads(cloudpickle.dumps(factory))(), snapshot)
        if records is None:
            assert around.run_source(operator) == InputStatus.END_OF_INPUT
        elif records:
            operator.emit_next(around.output, records)
        operator.prepare_snapshot_pre_barrier(1)
        state = operator.snapshot_state(1)
        operator.close()
        return around.output.elements, OperatorSnapshot.decode(state.encode())

    straight, _ = run()
    for cut in range(len(straight) + 1):
        before, snapshot = run(records=cut)
        after, end = run(snapshot)
        assert before + after == straight, cut
        assert run(end)[0] == []  # all of it was emitted: there is nothing left
