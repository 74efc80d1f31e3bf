"""The first rows by key: whoever keeps a table of what is given has, after each batch, what plain Python finds."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.common import Configuration
from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.datastream.columns import count, max_
from flinkbuf.records.column_batch import ColumnBatch, PageWriter
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.streaming.columns.ranked_rows import RankedRows, RankStates, whole_rows
from flinkbuf.testing import OperatorHarness

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("text", pa.string()), ("id", pa.int64())])
MAX_PARALLELISM = 8

ROW = st.tuples(st.sampled_from("abc"), st.none() | st.integers(-3, 3), st.sampled_from(["", "x", "xy", "y", None]))
PHASES = st.lists(
    st.tuples(st.integers(1, 3), st.lists(st.lists(ROW, min_size=1, max_size=8), max_size=6)), min_size=1, max_size=3
)


def keyed():
    return StreamExecutionEnvironment.get_execution_environment().from_collection([]).as_columns(SCHEMA).key_by("k")


def element_of(rows, first_id):
    columns = [*zip(*rows, strict=True), range(first_id, first_id + len(rows))]
    batch = pa.record_batch(
        [pa.array(column, type_) for column, type_ in zip(columns, SCHEMA.types, strict=True)], SCHEMA.names
    )
    return ColumnBatch(batch, np.arange(first_id, first_id + len(rows)) * 10)


def run(stream, phases, keeps_times=True):
    """Give each batch to the subtasks; yield all rows so far, and what it gave. Between phases, others go on."""
    restore, rows = None, []
    for parallelism, batches in phases:
        harnesses = [
            OperatorHarness.of(
                stream, parallelism=parallelism, subtask_index=i, max_parallelism=MAX_PARALLELISM, restore=restore
            )
            for i in range(parallelism)
        ]
        for each in harnesses:
            each.open()
        for batch in batches:
            element = element_of(batch, len(rows))
            rows += element.batch.to_pylist()
            found = []
            for index, harness in enumerate(harnesses):
                mine = np.flatnonzero(RowKeys(("k",), MAX_PARALLELISM, parallelism).of(element.batch) == index)
                if len(mine):
                    before = len(harness.output)
                    harness.process_element(PageWriter().write(element.take(mine)), 0)
                    for each in harness.output[before:]:
                        given = each.value.batch.to_pylist()
                        assert not keeps_times or each.value.timestamps.tolist() == [row["id"] * 10 for row in given]
                        found += given
            yield rows, found
        restore = [each.snapshot() for each in harnesses]
        for each in harnesses:
            each.close()


def smallest_first(value):
    """Null, then values."""
    return (value is not None, 0 if value is None else value)


def sorted_rows(rows, by):
    """Stable, the last column first."""
    rows = list(rows)
    for name, is_descending in reversed(by):
        rows.sort(key=lambda row, name=name: smallest_first(row[name]), reverse=is_descending)
    return rows


def of_each_key(rows):
    keys = {}
    for row in rows:
        keys.setdefault(row["k"], []).append(row)
    return keys.items()


@settings(max_examples=30, deadline=None)
@given(PHASES)
def test_the_first_row_to_come_is_given_once(phases):
    given = []
    for rows, found in run(keyed().deduplicate(row_kind="kind")._stream, phases):
        assert all(row.pop("kind") == "+I" for row in found)
        given += found
        assert sorted(given, key=lambda row: row["id"]) == [each[0] for _, each in of_each_key(rows)]


@settings(max_examples=50, deadline=None)
@given(PHASES, st.sampled_from([("last", None), ("first", "v"), ("last", "v"), ("first", "text"), ("last", "text")]))
def test_one_row_of_each_key_is_kept_as_it_changes(phases, kept):
    keep, by = kept
    table = {}
    for rows, found in run(keyed().deduplicate(keep, by=by, row_kind="kind")._stream, phases):
        for row in found:
            assert row.pop("kind") == ("+U" if row["k"] in table else "+I")
            assert table.get(row["k"]) != row
            table[row["k"]] = row
        for key, each in of_each_key(rows):
            order = [smallest_first(row[by]) if by else 0 for row in each]
            best = min(order) if keep == "first" else max(order)
            same = [row for row, value in zip(each, order, strict=True) if value == best]
            assert table[key] == (same[0] if keep == "first" and by else same[-1])
        assert len({row["k"] for row in found}) == len(found)


ORDERS = st.sampled_from(
    [
        [("v", True)],
        [("v", False)],
        [("text", True)],
        [("text", False), ("v", True)],
        [("v", True), ("text", False), ("id", True)],
    ]
)


@settings(max_examples=60, deadline=None)
@given(PHASES, st.integers(1, 5), ORDERS)
def test_ranks_are_given_as_they_change(phases, n, by):
    names, descending = zip(*by, strict=True)
    stream = keyed().top(n, by=list(names), descending=list(descending), rank="rank", row_kind="kind")
    table = {}
    for rows, found in run(stream._stream, phases):
        for row in found:
            place = row["k"], row.pop("rank")
            assert row.pop("kind") == ("+U" if place in table else "+I")
            assert table.get(place) != row
            table[place] = row
        wanted = {}
        for key, each in of_each_key(rows):
            wanted.update({(key, i + 1): row for i, row in enumerate(sorted_rows(each, by)[:n])})
        assert table == wanted


@settings(max_examples=40, deadline=None)
@given(PHASES, st.integers(2, 5), ORDERS)
def test_rows_that_come_in_and_fall_out(phases, n, by):
    names, descending = zip(*by, strict=True)
    table, seen = {}, {}
    with_kinds = keyed().top(n, by=list(names), descending=list(descending), row_kind="kind")
    plain = keyed().top(n, by=list(names), descending=list(descending))
    for (rows, found), (_, entered) in zip(run(with_kinds._stream, phases), run(plain._stream, phases), strict=True):
        assert entered == [{name: row[name] for name in SCHEMA.names} for row in found if row["kind"] == "+I"]
        for row in found:
            if row.pop("kind") == "-D":
                assert table.pop(row["id"]) == row
            else:
                assert row["id"] not in seen
                table[row["id"]] = seen[row["id"]] = row
        assert sorted(table.values(), key=lambda row: row["id"]) == sorted(
            (row for _, each in of_each_key(rows) for row in sorted_rows(each, by)[:n]), key=lambda row: row["id"]
        )


@settings(max_examples=30, deadline=None)
@given(PHASES)
def test_aggregates_say_which_keys_are_new(phases):
    table = {}
    stream = keyed().aggregate(n=count(), most=max_("v"), row_kind="kind")._stream
    for rows, found in run(stream, phases, keeps_times=False):
        for row in found:
            assert row.pop("kind") == ("+U" if row["k"] in table else "+I")
            table[row["k"]] = row
        for key, each in of_each_key(rows):
            values = [row["v"] for row in each if row["v"] is not None]
            assert table[key] == {"k": key, "n": len(each), "most": max(values, default=None)}


VALUES = {
    "double": (pa.float64(), [1.5, -0.0, 0.0, math.nan, -math.inf, math.inf, None, -7.25]),
    "float": (pa.float32(), [1.5, -0.0, 0.0, math.nan, None, -7.25]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1, None, 5]),
    "int8": (pa.int8(), [0, -128, 127, None]),
    "bool": (pa.bool_(), [True, None, False]),
    "decimal": (
        pa.decimal128(38, 2),
        [Decimal("-0.01"), Decimal(10) ** 35, None, Decimal("0.01"), -(Decimal(10) ** 35)],
    ),
    "decimal32": (pa.decimal32(5, 2), [Decimal("-0.01"), Decimal("1.25"), None]),
    "date": (pa.date32(), [datetime.date(1969, 1, 1), None, datetime.date(2026, 1, 1)]),
    "timestamp": (pa.timestamp("us"), [datetime.datetime(1969, 1, 1), None, datetime.datetime(2026, 1, 1, 0, 0, 0, 1)]),
    "time": (pa.time32("ms"), [datetime.time(3), datetime.time(1), None]),
    "duration": (pa.duration("s"), [datetime.timedelta(seconds=-3), None, datetime.timedelta(days=1)]),
    "large_string": (pa.large_string(), ["b", "", "ba", None, "ä", "a\0"]),
    "binary": (pa.binary(), [b"\xff", b"", None, b"\x7f"]),
    "fixed": (pa.binary(2), [b"\xff\0", b"ab", None]),
}


def java_order(value):
    """As Java compares numbers, and as bytes compare."""
    if isinstance(value, float):
        return (1, math.isnan(value), 0 if math.isnan(value) else value, math.copysign(1, value))
    if isinstance(value, str):
        value = value.encode()
    return (0,) if value is None else (1, value)


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_values_of_each_type_have_their_order(name, is_descending, data):
    """In slices of arrays, too, and whatever the state is merged with."""
    type_, values = VALUES[name]
    picked = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=9))
    array = pa.array([None, *picked, None], type_).slice(1, len(picked))
    rows = whole_rows(pa.record_batch({"x": array, "id": list(range(len(picked)))}))
    ranked = RankedRows(limit=4, by=(("x", is_descending),))
    states, merged = RankStates(ranked, (rows.type,)), RankStates(ranked, (rows.type,))
    states.accumulate(np.zeros(len(picked), np.uint32), 1, rows)
    for start in range(0, len(picked), 3):
        part = RankStates(ranked, (rows.type,))
        part.accumulate(np.zeros(len(picked[start : start + 3]), np.uint32), 1, rows.slice(start, 3))
        merged.merge(np.zeros(1, np.uint32), 1, *part.state())
    order = sorted(range(len(picked)), key=lambda i: java_order(picked[i]), reverse=is_descending)
    if is_descending:  # Python turns equal ones around with the others
        order = sorted(
            range(len(picked)),
            key=lambda i: [len(picked) - sum(java_order(picked[i]) > java_order(v) for v in picked), i],
        )
    for each in (states, merged):
        assert [row["id"] for row in each.result()[0].as_py()] == order[:4]


def test_rows_that_fell_out_are_forgotten():
    stream = keyed().deduplicate("last", by=lambda batch: pc.add(batch["id"], 1))
    with OperatorHarness.of(stream._stream) as harness:
        for number in range(0, 30_000, 1000):
            harness.process_element(element_of([(str(i % 100), i, "") for i in range(1000)], number), 0)
        assert len(harness.operator._groups.aggregates.accumulators[0]._rows) < 6000
        last = harness.output[-1].value.batch
    assert last["id"].to_pylist() == list(range(29_900, 30_000))


def test_rows_without_timestamps_have_none():
    with OperatorHarness.of(keyed().top(1, by="v")._stream) as harness:
        harness.process_element(ColumnBatch(element_of([("a", 1, "x")], 0).batch), 0)
        assert harness.output[0].value.timestamps is None


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda s: s.top(3, by="v", rank="v"), "rank=: two columns would be called 'v'"),
        (lambda s: s.top(3, by="v", row_kind="k"), "row_kind=: two columns would be called 'k'"),
        (lambda s: s.top(3, by="absent"), "rows are ordered by 'absent', which is no column; there are k, v, text, id"),
        (lambda s: s.top(3, by=whole_rows), "values of struct.* have no order here"),
        (lambda s: s.deduplicate(row_kind="v"), "row_kind=: two columns would be called 'v'"),
    ],
)
def test_what_rows_show_to_be_wrong_is_refused(build, said):
    with OperatorHarness.of(build(keyed())._stream) as harness:
        with pytest.raises((KeyError, TypeError, ValueError), match=said):
            harness.process_element(element_of([("a", 1, "x")], 0), 0)


def test_rows_have_the_columns_of_those_before():
    rows = element_of([("a", 1, "x")], 0).batch
    with OperatorHarness.of(keyed().top(2, by="v")._stream) as harness:
        harness.process_element(ColumnBatch(rows), 0)
        harness.process_element(ColumnBatch(rows.select(["text", "v", "id", "k"])), 0)
        assert harness.output[0].value.batch == harness.output[1].value.batch == rows
        with pytest.raises(TypeError, match="column 'rows' was struct<.* before and is struct<.* now"):
            harness.process_element(ColumnBatch(rows.rename_columns(["k", "v", "text", "number"])), 0)


def test_what_cannot_be_kept_is_refused():
    views = pa.record_batch({"k": ["a"], "v": pa.array(["x"], pa.string_view())})
    with OperatorHarness.of(keyed().top(2, by="k")._stream) as harness:
        with pytest.raises(TypeError, match="column 'v': rows with values of string_view cannot be kept; cast views"):
            harness.process_element(ColumnBatch(views), 0)


def test_a_snapshot_of_another_order_is_refused():
    programs = [
        keyed().top(3, by="v"),
        keyed().top(2, by="v"),
        keyed().top(3, by="v", descending=False),
        keyed().top(3, by=["v", "id"]),
        keyed().deduplicate("first", by="v"),
        keyed().deduplicate("last", by="v"),
        keyed().deduplicate("last"),
        keyed().deduplicate(),
        keyed().aggregate(rows=count()),
    ]
    for program in programs:
        with OperatorHarness.of(program._stream) as harness:
            harness.process_element(element_of([("a", 1, "x")], 0), 0)
            taken = harness.snapshot()
        for other in programs:
            if other is program:
                OperatorHarness.of(other._stream, restore=taken).open()
            else:
                with pytest.raises(TypeError, match="the snapshot has .* by k, and this program has .* by k: keep"):
                    OperatorHarness.of(other._stream, restore=taken).open()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_programs(parallelism, mode):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
    env.set_runtime_mode(mode)
    rows = [(i % 3, i * 7 % 10) for i in range(10)]
    stream = env.from_collection(rows).as_columns("k int, v int", max_rows=3).key_by("k")
    found = list(stream.top(2, by="v", rank="rank", row_kind="kind").execute_and_collect())
    table = {(row.k, row.rank): row.v for row in found}
    assert table == {(0, 1): 3, (0, 2): 2, (1, 1): 9, (1, 2): 8, (2, 1): 6, (2, 2): 5}
    if mode is RuntimeExecutionMode.BATCH:
        assert len(found) == len(table)
        assert {row.kind for row in found} == {"+I"}
    latest = list(stream.deduplicate("last", by="v").execute_and_collect())
    assert {row.k: row.v for row in latest} == {0: 3, 1: 9, 2: 6}
    firsts = sorted(stream.deduplicate().execute_and_collect())
    assert [row.k for row in firsts] == [0, 1, 2]
    if parallelism == 1:
        assert firsts == [(0, 0), (1, 7), (2, 4)], "which row comes first is not known where two subtasks read them"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda s: s.deduplicate("newest"), 'keep= of deduplicate.. is "first" or "last", got \'newest\''),
        (lambda s: s.deduplicate("last", by=5), "by= of deduplicate.. must be the name of a column, an expression"),
        (lambda s: s.deduplicate(row_kind=True), "row_kind= of deduplicate.. names a column, got bool True"),
        (lambda s: s.top("v", by="v"), "top.. takes how many rows a key has, an int, got str 'v'"),
        (lambda s: s.top(0, by="v"), "top.. keeps one row of each key or more, got 0"),
        (lambda s: s.top(1, by=[]), "by= of top.. names no column"),
        (lambda s: s.top(1, by=["v", None]), "by= of top.. must be the name of a column"),
        (lambda s: s.top(1, by=["v"] * 11), "by= of top.. names 11 columns, and rows are ordered by 10 at most"),
        (
            lambda s: s.top(1, by="v", descending=[True, False]),
            "descending= of top.. is True or False, or one of these",
        ),
        (lambda s: s.top(1, by="v", descending="no"), "descending= of top.. is True or False"),
        (lambda s: s.top(1, by="v", rank="r", row_kind="r"), "row_kind= of top..: there is a column 'r' already"),
        (lambda s: s.aggregate(n=count(), row_kind="n"), "row_kind= of aggregate..: there is a column 'n' already"),
        (lambda s: s.aggregate(n=count(), row_kind="k"), "row_kind= of aggregate..: there is a column 'k' already"),
        (lambda s: s.aggregate(row_kind=count()), "aggregate.. needs an aggregate"),
    ],
)
def test_what_makes_no_program_is_refused_where_it_is_said(build, said):
    with pytest.raises((TypeError, ValueError), match=said):
        build(keyed())


def test_schemas_are_known_before_anything_runs():
    assert keyed().deduplicate().schema() == SCHEMA
    ranked = keyed().top(2, by=lambda batch: batch["v"], rank="rank", row_kind="kind").schema()
    assert ranked == pa.schema([*SCHEMA, ("rank", pa.int64()), ("kind", pa.string())])
    assert keyed().aggregate(n=count(), row_kind="kind").schema().names == ["k", "n", "kind"]
