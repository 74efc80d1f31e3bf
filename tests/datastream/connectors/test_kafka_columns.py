"""Topics of Kafka as columns from the start: the rows, offsets and watermarks of the reading by records."""

import json

import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pa = pytest.importorskip("pyarrow")

from support.programs.embedded import embedded  # noqa: E402
from support.servers.kafka_brokers import mock_cluster  # noqa: E402
from test_kafka import Attempt, write  # noqa: E402

from flinkbuf.common import Time, Types, WatermarkStrategy  # noqa: E402
from flinkbuf.common.serialization import SimpleStringSchema  # noqa: E402
from flinkbuf.datastream.columns import count, window_end  # noqa: E402
from flinkbuf.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource  # noqa: E402
from flinkbuf.datastream.formats.csv import CsvRowDeserializationSchema  # noqa: E402
from flinkbuf.datastream.formats.json import JsonRowDeserializationSchema  # noqa: E402
from flinkbuf.datastream.window import TumblingEventTimeWindows  # noqa: E402
from flinkbuf.errors import CorruptDataError  # noqa: E402
from flinkbuf.records.column_batch import ColumnBatch  # noqa: E402
from flinkbuf.streaming.sources.kafka_source import KafkaColumnSource  # noqa: E402

ROW_TYPE = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
VALUES = [json.dumps({"n": number, "s": f"text {number}"}) for number in range(40)]


@pytest.fixture(scope="module")
def brokers():
    with mock_cluster() as address:
        yield address


def schema_of(**options):
    return JsonRowDeserializationSchema(ROW_TYPE, **options)


def source_of(brokers, topic, schema=None):
    builder = KafkaSource.builder().set_bootstrap_servers(brokers).set_topics(topic)
    return (
        builder.set_value_only_deserializer(schema or schema_of()).set_bounded(KafkaOffsetsInitializer.latest()).build()
    )


class ColumnAttempt(Attempt):
    """Counts rows, whether they come as batches or as records."""

    @property
    def values(self):
        found = [value for around in self.subtasks for value in around.output.values]
        return [
            row
            for each in found
            for row in (each.batch["n"].to_pylist() if isinstance(each, ColumnBatch) else [each.n])
        ]


@pytest.mark.parametrize("max_rows", [1, 3, 8192])
def test_a_batch_has_messages_of_one_partition_with_their_timestamps(brokers, max_rows):
    topic = f"all-{max_rows}"
    write(brokers, topic, VALUES)
    attempt = ColumnAttempt(source_of(brokers, topic).of_batches(None, max_rows, 1 << 22)[0], 3).emit()
    attempt.close()
    elements = [element for around in attempt.subtasks for element in around.output.elements]
    assert all(element.timestamp == element.value.latest for element in elements)
    assert all(0 < len(element.value) <= max_rows for element in elements)
    rows = [
        (*row.values(), time)
        for each in elements
        for row, time in zip(each.value.batch.to_pylist(), each.value.timestamps, strict=True)
    ]
    assert sorted(rows) == [(number, f"text {number}", 1_000 * (number + 1)) for number in range(40)]
    assert all(len({n % 4 for n in each.value.batch["n"].to_pylist()}) == 1 for each in elements)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1)])
def test_a_source_goes_on_where_the_checkpoint_was(brokers, before, after):
    topic = f"restore-{before}-{after}"
    write(brokers, topic, VALUES)
    records = source_of(brokers, topic)
    columns = records.of_batches(None, 3, 1 << 22)[0]
    for cut in (0, 1, 7, 20, 39, 40):
        first = ColumnAttempt(columns, before).emit(cut)
        done, checkpoint = first.values, first.checkpoint()
        first.emit(cut + 5)
        first.close()
        second = ColumnAttempt(records if cut == 7 else columns, after, checkpoint).emit()
        second.close()
        assert sorted(done + second.values) == list(range(40)), cut


def test_what_is_no_row_is_passed_over_and_is_behind_the_next_checkpoint(brokers):
    write(brokers, "bad", ['{"n": 1}', "null", "no json", '{"n": 2, "s": 5}'], 1)
    producer = library.Producer({"bootstrap.servers": brokers})
    producer.produce("bad", None, "deleted", 0)
    assert producer.flush(10) == 0
    source = source_of(brokers, "bad", schema_of(ignore_parse_errors=True)).of_batches(None, 10, 1 << 22)[0]
    attempt = ColumnAttempt(source, 1).emit()
    attempt.close()
    (element,) = attempt.subtasks[0].output.elements
    assert element.value.batch.to_pylist() == [{"n": 1, "s": None}, {"n": 2, "s": "5"}]
    assert element.value.timestamps.tolist() == [1_000, 4_000]
    strict = ColumnAttempt(source_of(brokers, "bad").of_batches(None, 10, 1 << 22)[0], 1)
    with pytest.raises(CorruptDataError, match="b'no json' is no row of this type"):
        strict.emit()
    strict.close()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_windows_by_the_timestamps_of_messages(brokers, parallelism):
    topic = f"windows-{parallelism}"
    write(brokers, topic, VALUES)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    rows = embedded(parallelism).from_source(source_of(brokers, topic), strategy, "topic").as_columns("n bigint")
    assert isinstance(rows._stream._transformation.reads_batches.factory.source, KafkaColumnSource)
    windows = rows.select(k=lambda batch: pa.array([0] * len(batch))).key_by("k")
    found = windows.window(TumblingEventTimeWindows.of(Time.seconds(10))).aggregate(end=window_end(), rows=count())
    counts = sorted((row.end.second, row.rows) for row in found.execute_and_collect())
    assert counts == [(10, 9), (20, 10), (30, 10), (40, 10), (50, 1)]


def test_lines_of_csv(brokers):
    write(brokers, "lines", [f'{number},"text, {number}"' for number in range(40)])
    schema = CsvRowDeserializationSchema.Builder(ROW_TYPE).build()
    source = source_of(brokers, "lines", schema)
    rows = embedded(2).from_source(source, WatermarkStrategy.no_watermarks(), "lines").as_columns()
    assert isinstance(rows._stream._transformation.reads_batches.factory.source, KafkaColumnSource)
    assert sorted(rows.execute_and_collect()) == [(number, f"text, {number}") for number in range(40)]


def test_other_schemas_are_read_by_records(brokers):
    write(brokers, "text", ["a"])
    assert source_of(brokers, "text", SimpleStringSchema()).of_batches(None, 10, 10) is None
    assert source_of(brokers, "text", schema_of(fail_on_missing_field=True)).of_batches(None, 10, 10) is None
    builder = KafkaSource.builder().set_bootstrap_servers(brokers).set_topics("text")
    assert builder.set_deserializer(lambda message: message.value()).build().of_batches(None, 10, 10) is None
