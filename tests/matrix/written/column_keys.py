"""Column streams by key: the first rows of each, as they change and by window; functions over the batches of many keys.

What a running result gives on its way hangs on the batches; what the changes that it says come to does not. So tables
are kept of what is given, which refuse a change that does not fit to what they have.
"""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction, OutputTag
from flinkbuf.datastream.columns import KeyedBatchFunction, collect, count, sum_, window_end, window_start
from flinkbuf.datastream.state import MapStateDescriptor
from flinkbuf.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from matrix.models import by_time, grouped, in_counts, in_fixed_windows, in_sessions
from matrix.program import program
from matrix.sources import Timed
from matrix.written.columns import at
from matrix.written.keyed import END
from matrix.written.windows import ms

ROWS = "k string, n bigint, x double, word string"
WORDS = ["a", "", None, "é", "a\0", "longer than twelve bytes"]
RECORDS = [(f"k{n % 4}", n, None if n % 7 == 3 else (n * 37) % 50 / 4 - 3, WORDS[n % 6]) for n in range(60)]
TIMED = Timed((record, 7 * record[1] + (record[1] * 53) % 60 - 20) for record in RECORDS)
SORTED = Timed(by_time(TIMED))


def first_field(value):
    return value[0]


def key_of(pair):
    return pair[0][0]


class Table(KeyedProcessFunction):
    """What the changes of a key come to in the end.

    Parameters
    ----------
    has_rank : bool or None
        Whether the last field before the kind tells the rows of a key apart, or all fields do; None: a key has one row.
    """

    def __init__(self, has_rank):
        self.has_rank = has_rank

    def open(self, runtime_context):
        self.rows = runtime_context.get_map_state(MapStateDescriptor("rows", Types.STRING(), None))

    def process_element(self, value, ctx):
        *row, kind = value
        place = "" if self.has_rank is None else repr(row[-1] if self.has_rank else row)
        is_there = self.rows.contains(place)
        if is_there != (kind in ("+U", "-D")):
            raise AssertionError(f"{kind} of {row}, and the table has {dict(self.rows.items())}")
        if kind == "-D":
            self.rows.remove(place)
        else:
            self.rows.put(place, tuple(row))
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        yield from self.rows.values()


def best(rows, n, descending=True):
    """The first rows by `x`, null the least, then by `n`, which tells all of them apart."""

    def order(row):
        return row[2] is not None, row[2] or 0, row[1]

    return sorted(rows, key=order, reverse=descending)[:n]


def of_keys(make):
    return [row for _, found in grouped(RECORDS, first_field) for row in make(found)]


def rows_of(inputs):
    return inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=5).key_by("k")


def in_table(stream, function):
    return stream.as_records().map(tuple).key_by(first_field).process(function)


@program(
    lambda: {
        "ranked": of_keys(lambda rows: [(*row, rank) for rank, row in enumerate(best(rows, 3), 1)]),
        "not ranked": of_keys(lambda rows: best(rows, 4, False)),
        "one": of_keys(lambda rows: best(rows, 1)),
    }
)
def column_tops(inputs):
    rows = rows_of(inputs)
    ranked = rows.top(3, by=("x", "n"), rank="rank", row_kind="kind")
    not_ranked = rows.top(4, by=("x", pc.field("n") * 1), descending=False, row_kind="kind")
    one = rows.top(1, by=("x", "n"), row_kind="kind")
    return {
        "ranked": in_table(ranked, Table(True)),
        "not ranked": in_table(not_ranked, Table(False)),
        "one": in_table(one, Table(None)),
    }


@program(
    lambda: {
        "first": of_keys(lambda rows: [min(rows, key=lambda row: row[1])]),
        "last": of_keys(lambda rows: [max(rows, key=lambda row: row[1])]),
    }
)
def column_deduplicates_by_a_column(inputs):
    rows = rows_of(inputs)
    first, last = (rows.deduplicate(keep, by="n", row_kind="kind") for keep in ("first", "last"))
    return {"first": in_table(first, Table(None)), "last": in_table(last, Table(None))}


@program(
    lambda: {
        "first": [found[0][0] for _, found in grouped(SORTED, key_of)],
        "last": [found[-1][0] for _, found in grouped(SORTED, key_of)],
    }
)
def column_deduplicates_as_rows_come(inputs):
    """Rows of a key come in the order of the source, and of time, as a batch job has them."""
    rows = inputs.records(SORTED).map(inputs.stumble(), ROWS).set_parallelism(1).as_columns(max_rows=5)
    keyed = rows.set_parallelism(1).key_by("k")
    last = keyed.deduplicate("last", row_kind="kind")
    return {"first": keyed.deduplicate().as_records().map(tuple), "last": in_table(last, Table(None))}


@program(
    lambda: [
        (key, len(found), sum(n for _, n, *_ in found), "kept") for key, found in grouped(RECORDS, lambda row: row[3])
    ]
)
def column_changes_of_running_results(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=4)
    rows = rows.with_columns(word=lambda batch: pc.fill_null(batch["word"], "none"))
    results = rows.key_by("word").aggregate(rows=count(), total=sum_("n"), row_kind="kind")
    table = in_table(results, Table(None))
    return table.map(lambda row: (None if row[0] == "none" else row[0], *row[1:], "kept"))


def of_windows(windows_of, make):
    return [
        (*row, *window)
        for _, found in grouped(TIMED, key_of)
        for window, inside in windows_of(found)
        for row in make([row for row, _ in inside])
    ]


@program(
    lambda: {
        "tumbling": of_windows(lambda found: in_fixed_windows(found, 90), lambda rows: best(rows, 2)),
        "sliding": of_windows(lambda found: in_fixed_windows(found, 90, 40), lambda rows: best(rows, 2)),
        "sessions": of_windows(lambda found: in_sessions(found, 25), lambda rows: best(rows, 2)),
        "last": of_windows(lambda found: in_sessions(found, 25), lambda rows: [max(rows, key=lambda row: row[1])]),
    }
)
def column_tops_of_windows(inputs):
    rows, times = rows_of(inputs), {"start": window_start(), "end": window_end()}
    sessions = rows.window(EventTimeSessionWindows.with_gap(ms(25)))
    streams = {
        "tumbling": rows.window(TumblingEventTimeWindows.of(ms(90))).top(2, by=("x", "n"), **times),
        "sliding": rows.window(SlidingEventTimeWindows.of(ms(90), ms(40))).top(2, by=("x", "n"), **times),
        "sessions": sessions.top(2, by=("x", "n"), **times),
        "last": sessions.deduplicate("last", by="n", **times),
    }
    return {
        name: stream.as_records().map(lambda row: (*tuple(row)[:4], at(row.start), at(row.end)))
        for name, stream in streams.items()
    }


@program(
    lambda: [
        (key, [n for (_, n, *_), _ in window], len({word for (*_, word), _ in window if word is not None}))
        for key, found in grouped(SORTED, key_of)
        for window in in_counts(found, 4)
    ]
)
def column_count_windows_with_lists(inputs):
    rows = inputs.records(SORTED).map(inputs.stumble(), ROWS).set_parallelism(1).as_columns(max_rows=7)
    windows = rows.set_parallelism(1).key_by("k").count_window(4)
    results = windows.aggregate(numbers=collect("n"), words=collect("word"))
    return results.as_records().map(lambda row: (row.k, row.numbers, len(set(row.words))))


class Seen(KeyedBatchFunction):
    """What came of each key, given at the end; and each 50 ms in which a row of even number came.

    Rows of odd numbers register timers for other times, and take them back at once.
    """

    odd = OutputTag("odd")

    def open(self, runtime_context):
        self.total = runtime_context.get_column_state("total", "rows bigint, n bigint, flag boolean")
        self.word = runtime_context.get_column_state("word", "n bigint, word string, words array<string>")

    def process_batch(self, batch, context):
        totals, words = self.total.get(context.keys), self.word.get(context.slots)
        rows, sums, flags, latest = [], [], [], []
        for place, (total, word) in enumerate(zip(totals.to_pylist(), words.to_pylist(), strict=True)):
            mine = batch.slice(context.offsets[place], context.offsets[place + 1] - context.offsets[place]).to_pylist()
            rows.append((total["rows"] or 0) + len(mine))
            sums.append((total["n"] or 0) + sum(each["n"] for each in mine))
            flags.append(bool(total["flag"]) or any(each["x"] is None for each in mine))
            top = max(mine, key=lambda each: each["n"])
            seen = sorted({*(word["words"] or []), *(each["word"] for each in mine if each["word"] is not None)})
            if word["n"] is not None and word["n"] > top["n"]:
                top = word
            latest.append((top["n"], top["word"], seen))
        self.total.put(context.keys, {"rows": rows, "n": sums, "flag": flags})
        numbers, texts, lists = zip(*latest, strict=True)
        self.word.put(
            context.slots,
            {
                "n": pa.array(numbers, pa.int64()),
                "word": pa.array(texts, pa.string()),
                "words": pa.array(lists, pa.list_(pa.string())),
            },
        )
        slots = context.slots.repeat(context.offsets[1:] - context.offsets[:-1])
        times, is_odd = context.timestamps - context.timestamps % 50 + 49, batch["n"].to_numpy() % 2 == 1
        context.register_event_time_timers(slots[~is_odd], times[~is_odd])
        context.register_event_time_timers(slots[is_odd], times[is_odd] + 1000)
        context.delete_event_time_timers(slots[is_odd], times[is_odd] + 1000)
        context.register_event_time_timers(context.slots, END)
        yield self.odd, pa.RecordBatch.from_arrays([batch["k"], batch["n"]], ["k", "n"]).filter(pa.array(is_odd))

    def on_timer(self, keys, context):
        is_end = context.timestamps == END
        slots = context.slots[is_end]
        totals, words = self.total.get(slots), self.word.get(slots)
        self.total.clear(slots)
        assert self.total.get(slots)["rows"].null_count == len(slots)
        yield {
            "k": keys["k"].filter(pa.array(is_end)),
            "at": pa.array(context.timestamps[is_end]),
            **{name: totals[name] for name in totals.schema.names},
            "word": words["word"],
            "words": words["words"],
        }
        timed = keys.filter(pa.array(~is_end))
        nulls = {
            "rows": pa.nulls(len(timed), pa.int64()),
            "n": pa.nulls(len(timed), pa.int64()),
            "flag": pa.nulls(len(timed), pa.bool_()),
            "word": pa.nulls(len(timed), pa.string()),
            "words": pa.nulls(len(timed), pa.list_(pa.string())),
        }
        yield {"k": timed["k"], "at": pa.array(context.timestamps[~is_end]), **nulls}


def seen_model():
    found = []
    for key, pairs in grouped(TIMED, key_of):
        times = {time - time % 50 + 49 for (_, n, *_), time in pairs if n % 2 == 0}
        found += [(key, time, None, None, None, None, None) for time in times]
        rows = [row for row, _ in pairs]
        last = max(rows, key=lambda row: row[1])
        words = sorted({word for *_, word in rows if word is not None})
        has_null = any(x is None for _, _, x, _ in rows)
        found.append((key, END, len(rows), sum(n for _, n, *_ in rows), has_null, last[3], words))
    return {"out": found, "odd": [(k, n) for k, n, *_ in RECORDS if n % 2]}


@program(seen_model)
def column_functions_over_batches(inputs):
    kind = "k string, at bigint, rows bigint, n bigint, flag boolean, word string, words array<string>"
    seen = rows_of(inputs).process_batches(Seen(), kind)
    odd = seen.get_side_output(Seen.odd).as_records("k string, n bigint").map(tuple)
    return {"out": seen.as_records().map(tuple), "odd": odd}
