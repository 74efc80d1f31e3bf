"""A function over batches does what the same function does record by record: state, timers, restores, rescales."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP
from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from flinkbuf.datastream.columns import KeyedBatchFunction
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.records.column_batch import ColumnBatch, PageWriter
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.columns import column_value_state, key_table
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
MAX_PARALLELISM = 8


def row_steps(total, text, value, at):
    """What a row does: the new state, or None, and the times of timers to register and to delete."""
    total, text = total + value, f"{text}{value}"[-6:]
    registered = [at + total % 11] if value % 3 == 0 else []
    deleted = [at + 2, at + total % 7] if value % 4 == 0 else []
    return None if value == 7 else (total, text), registered, deleted


def timer_steps(total, text, time):
    total, text = total + time % 5, f"{text}t"[-6:]
    registered = [time + 1 + total % 4] if total % 3 == 0 and total < 40 else []
    return None if total % 5 == 1 else (total, text), registered, [time + 1] if total % 2 else []


class ByRecord(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY()))

    def step(self, steps, ctx, time, *more):
        state, registered, deleted = steps(*(self.state.value() or (0, "")), *more)
        if state is None:
            self.state.clear()
        else:
            self.state.update(state)
        for each in registered:
            ctx.timer_service().register_event_time_timer(each)
        for each in deleted:
            ctx.timer_service().delete_event_time_timer(each)
        yield (ctx.get_current_key(), *(state or (None, None)), time)

    def process_element(self, value, ctx):
        yield from self.step(row_steps, ctx, ctx.timestamp(), value[1], value[2])

    def on_timer(self, timestamp, ctx):
        yield from self.step(timer_steps, ctx, timestamp, timestamp)


class ByBatch(KeyedBatchFunction):
    """The state's columns are two states, of numpy and of Arrow; a function of a user would have no loops."""

    def open(self, runtime_context):
        self.total = runtime_context.get_column_state("total", "total bigint")
        self.text = runtime_context.get_column_state("text", pa.schema([("text", pa.string())]))

    def step(self, steps, context, i, time, *more):
        keys = context.slots[i : i + 1] if i % 2 else context.keys.slice(i, 1)
        total = self.total.get(keys)["total"][0].as_py() or 0
        text = self.text.get(keys)["text"][0].as_py() or ""
        state, registered, deleted = steps(total, text, *more)
        if state is None:
            self.total.clear(keys)
            self.text.clear(keys)
        else:
            self.total.put(keys, {"total": np.array([state[0]])})
            self.text.put(keys, pa.record_batch({"text": [state[1]]}))
        for each in registered:
            context.register_event_time_timers(keys, each)
        for each in deleted:
            context.delete_event_time_timers(keys, np.array([each]))
        total, text = state or (None, None)
        return {"k": context.keys["k"][i].as_py(), "total": total, "text": text, "at": time}

    def process_batch(self, batch, context):
        assert batch.num_rows == context.offsets[-1] == len(context.timestamps)
        for i in range(context.keys.num_rows):
            rows = batch.slice(context.offsets[i], context.offsets[i + 1] - context.offsets[i]).to_pylist()
            assert {row["k"] for row in rows} == {context.keys["k"][i].as_py()}
            assert [row["at"] for row in rows] == context.timestamps[slice(*context.offsets[i : i + 2])].tolist()
            found = [self.step(row_steps, context, i, row["at"], row["v"], row["at"]) for row in rows]
            yield pa.RecordBatch.from_pylist(found, RESULT)

    def on_timer(self, keys, context):
        times = context.timestamps.tolist()
        assert times == sorted(times)
        assert len(set(context.slots.tolist())) == len(times) == keys.num_rows
        found = [self.step(timer_steps, context, i, time, time) for i, time in enumerate(times)]
        return pa.RecordBatch.from_pylist(found, RESULT)


RESULT = pa.schema([("k", pa.string()), ("total", pa.int64()), ("text", pa.string()), ("at", pa.int64())])


def source():
    return StreamExecutionEnvironment.get_execution_environment().from_collection([])


def by_record():
    return source().key_by(lambda row: row[0], Types.STRING()).process(ByRecord())


def by_batch(function=None, **options):
    function = ByBatch() if function is None else function
    return source().as_columns(SCHEMA).key_by("k").process_batches(function, **options)._stream


def element_of(rows):
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return ColumnBatch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), np.array([row[2] for row in rows]))


def by_key(found):
    rows = {}
    for row in found:
        rows.setdefault(row[0], []).append(row)
    return rows


def values_of(output):
    return [each.value for each in output if not isinstance(each, Watermark)]


def rows_of(output):
    return [tuple(row.values()) for each in values_of(output) for row in each.batch.to_pylist()]


ROW = st.tuples(st.sampled_from(["a", "", "b\0", "é" * 30, "c"]), st.integers(-9, 9), st.integers(0, 40))
STEPS = st.lists(st.lists(ROW, min_size=1, max_size=8) | st.integers(0, 50), max_size=12)


def in_order(steps):
    latest = -1
    for step in steps:
        if isinstance(step, int):
            latest = step = max(step, latest)
        yield step


def spread(harnesses, step, is_columns):
    """Give a step to all subtasks, each its rows."""
    for index, harness in enumerate(harnesses):
        if isinstance(step, int):
            harness.process_watermark(step)
            continue
        element = element_of(step)
        mine = np.flatnonzero(RowKeys(("k",), MAX_PARALLELISM, len(harnesses)).of(element.batch) == index)
        if not is_columns:
            for place in mine:
                harness.process_element(step[place], step[place][2])
        elif len(mine):
            harness.process_element(PageWriter().write(element.take(mine)), 0)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(1, 3)), min_size=1, max_size=3), st.sampled_from([1, 3, 4096]))
def test_a_function_over_batches_does_what_it_does_by_record(phases, least_slots):
    """Through snapshots, each restored at another parallelism, and with tables that forget keys."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_table, "LEAST_SLOTS", least_slots)
        for is_columns, program in ((False, by_record()), (True, by_batch())):
            rows, restore = [], None
            for steps, parallelism in [*phases, ([MAX_WATERMARK], 1)]:
                harnesses = [
                    OperatorHarness.of(
                        program,
                        parallelism=parallelism,
                        subtask_index=index,
                        max_parallelism=MAX_PARALLELISM,
                        restore=restore,
                    )
                    for index in range(parallelism)
                ]
                for each in harnesses:
                    each.open()
                for step in in_order(steps):
                    spread(harnesses, step, is_columns)
                restore = [each.snapshot() for each in harnesses]
                for each in harnesses:
                    rows += rows_of(each.output) if is_columns else values_of(each.output)
                    each.close()
            found.append(by_key(rows))
    assert found[0] == found[1]


# --- results


class Given(KeyedBatchFunction):
    """Gives what it is told to give."""

    def __init__(self, give, on_timer=None):
        self.give, self.timed = give, on_timer

    def process_batch(self, batch, context):
        return self.give(batch, context)

    def on_timer(self, keys, context):
        return self.timed(keys, context)


def given_for(give, rows=(("a", 1, 5), ("b", 2, 7), ("a", 3, 6)), watermark=None, on_timer=None, **options):
    with OperatorHarness.of(by_batch(Given(give, on_timer), **options)) as harness:
        harness.process_element(element_of(rows), 0)
        if watermark is not None:
            harness.process_watermark(watermark)
        return values_of(harness.output), harness.side_output(OutputTag("side"))


def test_batches_of_all_kinds_are_results():
    polars = pytest.importorskip("polars")
    kinds = [
        pa.record_batch({"n": [1]}),
        pa.table({"n": [1]}),
        {"n": np.array([1])},
        {"n": pa.array([1])},
        {"n": pa.chunked_array([[1]])},
        {"n": polars.Series([1])},
        polars.DataFrame({"n": [1]}),
        np.array([(1,)], [("n", np.int64)]),
    ]
    for kind in kinds:
        for give in (lambda *_, kind=kind: kind, lambda *_, kind=kind: [kind], lambda *_, kind=kind: iter((kind,))):
            (element,), _ = given_for(give)
            assert element.batch.to_pydict() == {"n": [1]}
    assert given_for(lambda *_: None) == given_for(lambda *_: []) == ([], [])
    assert given_for(lambda *_: pa.record_batch({"n": pa.array([], pa.int64())})) == ([], [])


def test_results_have_the_latest_timestamp_or_one_of_their_own():
    result = {"n": np.arange(2), "t": np.array([50, 3])}
    (element,), _ = given_for(lambda *_: result)
    assert element.timestamps.tolist() == [7, 7]
    (element,), _ = given_for(lambda *_: result, timestamp_column="t")
    assert element.timestamps.tolist() == [50, 3] and element.batch.schema.names == ["n"]
    nulls = {"n": np.arange(2), "t": pa.array([None, 3], pa.timestamp("us"))}
    (element,), _ = given_for(lambda *_: nulls, timestamp_column="t")
    assert element.timestamps.tolist() == [NO_TIMESTAMP, 0]
    with pytest.raises(ValueError, match=r"process_batch\(\) gave a batch without the column 't'.*; there are n"):
        given_for(lambda *_: {"n": np.arange(2)}, timestamp_column="t")

    def register(batch, context):
        context.register_event_time_timers(context.keys, np.array([30, 20]))

    (element,), _ = given_for(register, watermark=40, on_timer=lambda keys, context: keys)
    assert element.batch.to_pydict() == {"k": ["b", "a"]} and element.timestamps.tolist() == [30, 30]


def test_rows_without_timestamps():
    def give(batch, context):
        assert context.timestamps is None and context.current_watermark == NO_TIMESTAMP
        return batch

    with OperatorHarness.of(by_batch(Given(give))) as harness:
        harness.process_element(ColumnBatch(element_of([("a", 1, 5)]).batch), 0)
        (element,) = values_of(harness.output)
    assert element.timestamps is None


def test_a_result_with_a_tag_goes_to_the_side_output():
    tag = OutputTag("side")
    for give in (lambda batch, _: (tag, batch), lambda batch, _: [batch.slice(1), (tag, batch), (tag, batch[:0])]):
        found, side = given_for(give, output_type="k string, v bigint, at bigint")
        assert [each.value.batch.num_rows for each in side] == [3]
        assert [len(each) for each in found] in ([], [2])


def test_declared_results():
    declared = {"output_type": "n bigint, s string"}
    (element,), _ = given_for(lambda *_: {"s": np.array(["x"]), "n": np.array([1], np.int8)}, **declared)
    assert element.batch.to_pydict() == {"n": [1], "s": ["x"]}
    with pytest.raises(ValueError, match=r"process_batch\(\) gave .* the columns n, and output_type has n, s"):
        given_for(lambda *_: {"n": np.array([1])}, **declared)
    with pytest.raises(TypeError, match="column 'n' is int64 in output_type and is double now, .*; give it that type"):
        given_for(lambda *_: {"n": np.array([1.5]), "s": np.array(["x"])}, **declared)


@pytest.mark.parametrize("result", [5, "text", {"n": 5}, [5], [("tag", None)], {}])
def test_what_is_no_batch_is_refused(result):
    with pytest.raises(TypeError, match=r"process_batch\(\) gives a batch, an iterable of batches or None; a batch is"):
        given_for(lambda *_: result)


# --- what is refused


def stateful(use, description="n bigint, s string"):
    class Stateful(KeyedBatchFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_column_state("last", description)

        def process_batch(self, batch, context):
            return use(self.state, context)

    with OperatorHarness.of(by_batch(Stateful())) as harness:
        harness.process_element(element_of([("a", 1, 5), ("b", 2, 7)]), 0)
        return values_of(harness.output)


TEXTS = pa.array(["x", "y"])


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        (
            lambda s, c: s.put(c.keys, {"n": np.arange(3), "s": TEXTS}),
            ValueError,
            r"put\(\) of the state 'last' was given 2 keys and 3 values in the column 'n'",
        ),
        (
            lambda s, c: s.put(c.slots[:1], {"n": np.arange(1), "s": TEXTS}),
            ValueError,
            "was given 1 keys and 2 values in the column 's'",
        ),
        (
            lambda s, c: s.put(c.keys, {"n": np.arange(2)}),
            ValueError,
            r"the state 'last' has the columns n, s, and put\(\) was given n",
        ),
        (
            lambda s, c: s.put(c.keys, {"n": np.ones(2), "s": TEXTS}),
            TypeError,
            "column 'n' is int64 in the state 'last' and is double now, and its values .*; give it that type",
        ),
        (lambda s, c: s.put(c.keys, 5), TypeError, r"put\(\) of the state 'last' takes a batch, or a dict of columns"),
        (
            lambda s, c: s.put(c.keys, {"n": 5, "s": TEXTS}),
            TypeError,
            "takes for 'n' a column, such as an Arrow or numpy",
        ),
        (
            lambda s, c: s.put(c.keys, {"n": [object(), 1], "s": TEXTS}),
            TypeError,
            r"put\(\) of the state 'last': column 'n': ",
        ),
        (
            lambda s, c: s.get(c.slots == 0),
            TypeError,
            r"get\(\) of the state 'last' takes keys, .* the columns k such as context.keys, .*; got .* of booleans",
        ),
        (lambda s, c: s.get(["a"]), TypeError, "takes keys, .*; got list"),
        (
            lambda s, c: s.clear(c.slots + 1),
            IndexError,
            r"clear\(\) of the state 'last': .* slots from 0 to 1, got 1 to 2",
        ),
        (lambda s, c: s.get(pa.record_batch({"j": [1]})), KeyError, "the batch has no column 'k', which is of the key"),
        (lambda s, c: s.get(pa.record_batch({"k": [1]})), TypeError, "column 'k' was string before and is int64 now"),
        (
            lambda s, c: c.register_event_time_timers(c.keys, np.arange(3)),
            ValueError,
            r"register_event_time_timers\(\) was given 2 keys and 3 timestamps",
        ),
        (
            lambda s, c: c.register_event_time_timers(c.keys, np.ones(2)),
            TypeError,
            r"column 'timestamps of register_event_time_timers\(\)' holds the timestamps .*; got double",
        ),
        (
            lambda s, c: c.delete_event_time_timers(c.keys, pa.array([None, 1])),
            ValueError,
            r"delete_event_time_timers\(\): 1 of the timestamps are null",
        ),
        (
            lambda s, c: c.delete_event_time_timers(c.keys, "now"),
            TypeError,
            "takes timestamps, an array of milliseconds",
        ),
        (lambda s, c: c.delete_event_time_timers(c.keys, 2**63), OverflowError, "too large"),
    ],
)
def test_what_a_function_says_wrong_is_told_with_names(use, error, said):
    with pytest.raises(error, match=said):
        stateful(use)


def test_nothing_changes_where_a_column_is_refused():
    def use(state, context):
        state.put(context.keys, {"n": np.arange(2), "s": TEXTS})
        with pytest.raises(TypeError):
            state.put(context.keys, {"n": np.arange(2) + 5, "s": np.arange(2)})
        return state.get(context.keys)

    assert stateful(use)[0].batch.to_pydict() == {"n": [0, 1], "s": ["x", "y"]}


def test_states_are_asked_for_by_name_and_columns():
    class Asks(Given):
        def open(self, runtime_context):
            state = runtime_context.get_column_state("a", "n bigint")
            assert runtime_context.get_column_state("a", pa.schema([("n", pa.int64())])) is state
            assert repr(state) == "<ColumnValueState 'a' with n int64>"
            with pytest.raises(TypeError, match="there is a state 'a' already with n int64, not n int32: give one"):
                runtime_context.get_column_state("a", "n int")
            with pytest.raises(ValueError, match="the state 'b' needs columns, each with a name of its own; got n, n"):
                runtime_context.get_column_state("b", pa.schema([("n", pa.int64()), ("n", pa.int64())]))
            with pytest.raises(TypeError, match="the state 'c': column 's': values of string_view are not kept"):
                runtime_context.get_column_state("c", pa.schema([("s", pa.string_view())]))
            with pytest.raises(TypeError, match="a state needs a name, got int 5"):
                runtime_context.get_column_state(5, "n int")
            with pytest.raises(RuntimeError, match=r"the state 'd' would be that of one key, .*get_column_state"):
                runtime_context.get_state(ValueStateDescriptor("d", Types.INT()))

    with OperatorHarness.of(by_batch(Asks(lambda *_: None))):
        pass

    class OfRecords(KeyedProcessFunction):
        def open(self, runtime_context):
            runtime_context.get_column_state("a", "n bigint")

        def process_element(self, value, ctx):
            pass

    with pytest.raises(RuntimeError, match=r"get_column_state\(\) is for a KeyedBatchFunction"):
        OperatorHarness.of(source().key_by(len).process(OfRecords())).open()


def test_a_context_is_good_for_one_call():
    class Keeps(KeyedBatchFunction):
        context = None

        def process_batch(self, batch, context):
            self.context = context if self.context is None else self.context
            self.context.register_event_time_timers(self.context.keys, 5)

    with OperatorHarness.of(by_batch(Keeps())) as harness:
        harness.process_element(element_of([("a", 1, 5)]), 0)
        with pytest.raises(RuntimeError, match="this context was good for one call of the function, which is over"):
            harness.process_element(element_of([("a", 1, 5)]), 0)


def test_keys_of_other_subtasks_are_refused():
    asked = pa.record_batch({"k": [str(number) for number in range(20)]})

    def use(batch, context):
        context.register_event_time_timers(asked, 5)

    with OperatorHarness.of(by_batch(Given(use)), parallelism=2, max_parallelism=2) as harness:
        mine = RowKeys(("k",), 2).of(asked) == 0
        row = (asked["k"].filter(mine)[0].as_py(), 1, 5)
        with pytest.raises(ValueError, match="some of these keys belong to other subtasks"):
            harness.process_element(element_of([row]), 0)


# --- state


def test_of_several_rows_for_one_key_the_last_stays():
    def use(state, context):
        state.put(np.array([0, 1, 0]), {"n": np.arange(3), "s": pa.array(["x", "y", None])})
        return state.get(np.array([1, 0, 0], np.uint32))

    assert stateful(use)[0].batch.to_pydict() == {"n": [1, 2, 2], "s": ["y", None, None]}


def test_what_holds_nothing_is_forgotten(monkeypatch):
    """Keys that come once and go leave no memory; what lives, and timers, stay under their keys."""
    monkeypatch.setattr(key_table, "LEAST_SLOTS", 16)

    class Passing(KeyedBatchFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_column_state("s", "n bigint, s string")

        def process_batch(self, batch, context):
            rows = batch.take(context.offsets[:-1])
            self.state.put(context.keys, {"n": rows["v"], "s": rows["k"]})
            is_passing = rows["v"].to_numpy() >= 10
            self.state.clear(context.slots[is_passing])
            if not is_passing.any():
                context.register_event_time_timers(context.keys, 100)

        def on_timer(self, keys, context):
            yield {"k": keys["k"], **dict(zip("ns", self.state.get(keys).columns, strict=True))}

    with OperatorHarness.of(by_batch(Passing())) as harness:
        harness.process_element(element_of([(f"stays{number}", number, 1) for number in range(5)]), 0)
        table, most = harness.operator._table, 0
        for number in range(300):
            harness.process_element(element_of([(f"{number} {i}", 10 + i, 2) for i in range(3)]), 0)
            most = max(most, len(table))
        assert most < 40
        harness.process_watermark(100)
        (found,) = values_of(harness.output)
        assert sorted(tuple(row.values()) for row in found.batch.to_pylist()) == [
            (f"stays{number}", number, f"stays{number}") for number in range(5)
        ]


class Counts(KeyedBatchFunction):
    def open(self, runtime_context):
        self.rows = runtime_context.get_column_state("rows", "n bigint")

    def process_batch(self, batch, context):
        before = self.rows.get(context.keys)["n"].fill_null(0).to_numpy()
        self.rows.put(context.keys, {"n": before + np.diff(context.offsets)})
        yield {"keys": context.keys.to_struct_array(), "n": self.rows.get(batch)["n"].take(context.offsets[:-1])}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_keys_of_several_columns_with_nulls_and_all_kinds_of_zero(monkeypatch, backend):
    """All NaN are one key, 0.0 and -0.0 are two; a snapshot has several batches, and is of either backend."""
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    monkeypatch.setattr(column_value_state, "_MOST_ROWS", 2)
    keys = [(None, "a"), (0.0, "a"), (-0.0, "a"), (np.nan, None), (-np.nan, None), (None, "a"), (None, None)]
    columns = [
        pa.array(each, type_) for each, type_ in zip(zip(*keys, strict=True), (pa.float64(), pa.string()), strict=True)
    ]
    batch = pa.record_batch(columns, ["x", "y"])
    stream = source().as_columns("x double, y string").key_by("x", "y").process_batches(Counts())._stream
    restore, options = None, {"settings": ExecutionSettings(state_backend=backend), "max_parallelism": MAX_PARALLELISM}
    with contextlib.ExitStack() as harnesses:  # a snapshot of RocksDB lies in files until its operator is closed
        for turn in range(1, 4):
            harness = harnesses.enter_context(OperatorHarness.of(stream, restore=restore, **options))
            harness.process_element(ColumnBatch(batch), 0)
            (element,) = values_of(harness.output)
            restore = harness.snapshot()
            found = {repr(tuple(row["keys"].values())): row["n"] for row in element.batch.to_pylist()}
            counts = {"(None, 'a')": 2, "(0.0, 'a')": 1, "(-0.0, 'a')": 1, "(nan, None)": 2, "(None, None)": 1}
            assert found == {key: turn * count for key, count in counts.items()}


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_snapshot_of_other_columns_or_another_key_is_refused(is_kept):
    class Declares(KeyedBatchFunction):
        def __init__(self, *description):
            self.description = description

        def open(self, runtime_context):
            if self.description:
                self.state = runtime_context.get_column_state(*self.description)

        def process_batch(self, batch, context):
            if context.current_watermark == 0:
                return {"n": self.state.get(context.keys)["n"]}
            if self.description and "k" in context.keys.schema.names:
                self.state.put(context.keys, {"n": np.arange(context.keys.num_rows), "s": context.keys["k"]})
            context.register_event_time_timers(context.keys, 5)

    with OperatorHarness.of(by_batch(Declares("last", "n bigint, s string"))) as harness:
        harness.process_element(element_of([("b", 1, 5), ("a", 1, 5)]), 0)
        taken = harness.snapshot()
    if is_kept:  # columns in another order are the same; a state that nobody asks for stays in snapshots
        for description in (("last", "s string, n bigint"), ("other", "n int"), ()):
            with OperatorHarness.of(by_batch(Declares(*description)), restore=taken) as harness:
                taken = harness.snapshot()
        with OperatorHarness.of(by_batch(Declares("last", "s string, n bigint")), restore=taken) as harness:
            harness.process_watermark(0)
            harness.process_element(element_of([("c", 1, 5), ("a", 1, 5)]), 0)
            assert values_of(harness.output)[0].batch.to_pydict() == {"n": [1, None]}  # keys by their slots
        return
    for description, has in (("n int, s string", "n int32, s string"), ("n bigint", "n int64")):
        said = f"the snapshot has the state 'last' with n int64, s string by k, and this program with {has} by k: keep"
        with pytest.raises(TypeError, match=said):
            OperatorHarness.of(by_batch(Declares("last", description)), restore=taken).open()
    other = source().as_columns(SCHEMA).key_by("v").process_batches(Declares())
    with pytest.raises(TypeError, match="the snapshot has timers by k, and this program keys by v: keep the key"):
        OperatorHarness.of(other._stream, restore=taken).open()


@pytest.mark.parametrize("type_", [pa.list_(pa.string()), pa.map_(pa.string(), pa.int64())])
def test_what_elements_of_lists_are_called_is_no_matter(type_):
    """What a function puts has Arrow's name for them, and DDL another one; a snapshot may have either."""
    description = "words array<string>" if pa.types.is_list(type_) else "words map<string, bigint>"
    value = ["a", None] if pa.types.is_list(type_) else [("a", 1)]

    class Words(KeyedBatchFunction):
        def open(self, runtime_context):
            self.words = runtime_context.get_column_state("words", description)

        def process_batch(self, batch, context):
            yield {"words": self.words.get(context.keys)["words"]}
            self.words.put(context.keys, {"words": pa.array([value] * len(context.keys), type_)})

    restore = None
    for there in (None, value, value):
        with OperatorHarness.of(by_batch(Words()), restore=restore) as harness:
            harness.process_element(element_of([("a", 1, 5)]), 0)
            assert values_of(harness.output)[0].batch["words"].to_pylist() == [there]
            restore = harness.snapshot()


def test_what_a_function_raises_is_located():
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    rows = env.from_collection([("a", 1, 5)]).as_columns(SCHEMA)

    def fail(*_):
        raise ZeroDivisionError("by hand")

    def register(batch, context):
        context.register_event_time_timers(context.keys, 5)

    for function in (Given(fail), Given(register, fail)):
        keyed = rows.assign_timestamps_and_watermarks("at").key_by("k")
        with pytest.raises(ZeroDivisionError) as caught:
            list(keyed.process_batches(function).name("mine").execute_and_collect())
        assert any("in operator 'mine'" in note and "with the record" in note for note in caught.value.__notes__)


# --- whole jobs


class Largest(KeyedBatchFunction):
    """Each key's largest value, when event time ends."""

    def open(self, runtime_context):
        self.most = runtime_context.get_column_state("most", "v bigint")

    def process_batch(self, batch, context):
        before = self.most.get(context.keys)["v"].fill_null(-1).to_numpy()
        most = np.maximum(before, np.maximum.reduceat(batch["v"].to_numpy(), context.offsets[:-1]))
        self.most.put(context.keys, {"v": most})
        context.register_event_time_timers(context.keys, 10**6)

    def on_timer(self, keys, context):
        return {"k": keys["k"], "v": self.most.get(keys)["v"]}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_job(parallelism, is_batch):
    from flinkbuf.datastream import RuntimeExecutionMode

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if is_batch else RuntimeExecutionMode.STREAMING)
    numbers = env.from_collection([(f"k{n % 7}", n * 31 % 101, n) for n in range(300)])
    rows = numbers.as_columns(SCHEMA, max_rows=20).assign_timestamps_and_watermarks("at").key_by("k")
    found = rows.process_batches(Largest(), "k string, v bigint").execute_and_collect()
    assert sorted(found) == [(f"k{k}", max(n * 31 % 101 for n in range(k, 300, 7))) for k in range(7)]
