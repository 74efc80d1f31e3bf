"""Programs over column streams: rows as batches, windows and running results by key, and the borders to records."""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.datastream import OutputTag
from flinkbuf.datastream.columns import (
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    max_by,
    mean,
    min_,
    sum_,
    window_end,
    window_start,
)
from flinkbuf.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from matrix.models import LateWindows, grouped, in_counts, in_fixed_windows, in_sessions
from matrix.program import program
from matrix.sources import RECORD, WATERMARK, Exact, Timed
from matrix.written.windows import ms

ROWS = "k string, n bigint, x double"
WORDS = ["a", "", "c", None, "é", "a\0"]
PAIRS = [(f"k{number % 4}", number, None if number % 7 == 3 else number / 4 - 3) for number in range(60)]
TIMED = Timed((pair, 7 * pair[1] + (pair[1] * 53) % 60 - 20) for pair in PAIRS)
LATE = Exact(
    *[
        step
        for number in range(40)
        for step in (
            (RECORD, (f"k{number % 3}", number, None), 10 * number - (number * 7 % 11) * 12),
            *([(WATERMARK, 10 * number - 15)] if number % 2 else []),
        )
    ]
)


def at(value):
    """A timestamp of Arrow as milliseconds."""
    return round(value.timestamp() * 1000)


@program(lambda: [(n * 2, k) for k, n, x in PAIRS if x is not None and x > 0])
def column_filter_and_select(inputs):
    rows = inputs.records(PAIRS).map(inputs.stumble(), ROWS).as_columns(max_rows=7)
    chosen = rows.filter(pc.field("x") > 0).select(double=pc.field("n") * 2, key="k")
    return chosen.as_records().map(tuple)


def doubled(batch):
    return pa.concat_batches([batch, batch])


def absent(batch):
    return pa.record_batch({"k": batch["k"], "n": pc.add(batch["n"], 1)})


@program(lambda: 2 * [(k, n + 1) for k, n, _ in PAIRS] + [(k, -n) for k, n, _ in PAIRS])
def column_functions_and_a_union(inputs):
    one = inputs.records(PAIRS).as_columns(ROWS).map_batches(absent).flat_map_batches(doubled).rebalance()
    two = inputs.records(PAIRS).map(inputs.stumble(), ROWS).as_columns()
    two = two.with_columns(n=lambda batch: pc.negate(batch["n"])).drop("x")
    return one.union(two.rename(k="key").rename(key="k")).as_records("k string, n bigint").map(tuple)


def figures(inside):
    rows = [row for row, _ in inside]
    there = [x for _, _, x in rows if x is not None]
    return len(rows), sum(n for _, n, _ in rows), max(there, default=None), sum(there) / len(there) if there else None


@program(
    lambda: [
        (key, *window, *figures(inside))
        for key, found in grouped(TIMED, lambda pair: pair[0][0])
        for window, inside in in_fixed_windows(found, 50, offset=3)
    ]
)
def column_tumbling_windows(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=5)
    windows = rows.key_by("k").window(TumblingEventTimeWindows.of(ms(50), ms(3)))
    results = windows.aggregate(
        start=window_start(), end=window_end(), rows=count(), total=sum_("n"), most=max_("x"), mean=mean("x")
    )
    return results.as_records().map(lambda row: (row.k, at(row.start), at(row.end), *tuple(row)[3:]))


@program(
    lambda: [
        (key, window[1], len(inside), min(n for (_, n, _), _ in inside))
        for key, found in grouped(TIMED, lambda pair: pair[0][0])
        for window, inside in in_fixed_windows(found, 60, 25)
    ]
)
def column_sliding_windows(inputs):
    rows = inputs.records(TIMED).as_columns(ROWS)
    windows = rows.key_by("k").window(SlidingEventTimeWindows.of(ms(60), ms(25)))
    results = windows.aggregate(end=window_end(), rows=count(), least=min_("n"))
    return results.as_records().map(lambda row: (row.k, at(row.end), row.rows, row.least)).map(inputs.stumble("output"))


@program(
    lambda: [
        (key, start, end, len(inside))
        for key, found in grouped(TIMED, lambda pair: pair[0][0])
        for (start, last), _ in in_fixed_windows(found, 60)
        for end in range(start + 20, last + 1, 20)
        if (inside := [at for _, at in found if start <= at < end])
    ]
)
def column_cumulating_windows(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=5)
    windows = rows.key_by("k").window(CumulatingEventTimeWindows.of(ms(60), ms(20)))
    results = windows.aggregate(start=window_start(), end=window_end(), rows=count())
    return results.as_records().map(lambda row: (row.k, at(row.start), at(row.end), row.rows))


@program(
    lambda: [
        (key, *window, *figures(inside))
        for key, found in grouped(TIMED, lambda pair: pair[0][0])
        for window, inside in in_sessions(found, 25)
    ]
)
def column_sessions(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=5)
    windows = rows.key_by("k").window(EventTimeSessionWindows.with_gap(ms(25)))
    results = windows.aggregate(
        start=window_start(), end=window_end(), rows=count(), total=sum_("n"), most=max_("x"), mean=mean("x")
    )
    return results.as_records().map(lambda row: (row.k, at(row.start), at(row.end), *tuple(row)[3:]))


@program(
    lambda: [
        (key, len(window)) for key, found in grouped(TIMED, lambda pair: pair[0][0]) for window in in_counts(found, 4)
    ]
)
def column_count_windows(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=7)
    results = rows.key_by("k").count_window(4).aggregate(rows=count())
    return results.as_records().map(tuple)


@program(
    lambda: [
        (key, len(window))
        for key, found in grouped(TIMED, lambda pair: pair[0][0])
        for window in in_counts(found, 5, 2)
    ]
)
def column_overlapping_count_windows(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=7)
    results = rows.key_by("k").count_window(5, 2).aggregate(rows=count())
    return results.as_records().map(tuple)


def of_all_windows(windows):
    return [(*window, *figures(inside)) for window, inside in windows]


@program(
    lambda: {
        "tumbling": of_all_windows(in_fixed_windows(TIMED, 50, offset=3)),
        "sliding": of_all_windows(in_fixed_windows(TIMED, 60, 25)),
        "sessions": of_all_windows(in_sessions(TIMED, 5)),
    }
)
def column_windows_over_all_rows(inputs):
    rows = inputs.records(TIMED).map(inputs.stumble(), ROWS).as_columns(max_rows=5)
    assigners = {
        "tumbling": TumblingEventTimeWindows.of(ms(50), ms(3)),
        "sliding": SlidingEventTimeWindows.of(ms(60), ms(25)),
        "sessions": EventTimeSessionWindows.with_gap(ms(5)),
    }
    return {
        name: rows.window_all(assigner)
        .aggregate(
            start=window_start(), end=window_end(), rows=count(), total=sum_("n"), most=max_("x"), mean=mean("x")
        )
        .uid(name)  # what follows is chained to it or is not, by its width
        .as_records()
        .map(lambda row: (at(row.start), at(row.end), *tuple(row)[2:]))
        for name, assigner in assigners.items()
    }


def late_windows(way, size, slide, lateness):
    """The windows of LATE that are given at their ends, and what comes too late."""
    found, left = [], []
    for key in ("k0", "k1", "k2"):
        steps = [step for step in LATE.steps if step[0] == WATERMARK or step[1][0] == key]
        model = LateWindows(size, slide, lateness, way.is_batch).play(steps)
        found += [(key, *window, [n for _, n, _ in values]) for window, values in model.fired]
        left += model.late
    return {"fired": [(k, s, e, len(n), sum(n)) for k, s, e, n in found], "late": left}


@program(lambda way: late_windows(way, 40, None, 0))
def column_windows_with_late_rows(inputs):
    late = OutputTag("late")
    rows = inputs.records(LATE).as_columns(ROWS).set_parallelism(1)  # so that watermarks stay where they are
    windows = rows.key_by("k").window(TumblingEventTimeWindows.of(ms(40))).side_output_late_data(late)
    fired = windows.aggregate(start=window_start(), end=window_end(), rows=count(), total=sum_("n"))
    return {
        "fired": fired.as_records()
        .map(lambda row: (row.k, at(row.start), at(row.end), row.rows, row.total))
        .map(inputs.stumble()),
        "late": fired.get_side_output(late).as_records(ROWS).map(tuple),
    }


def keyed_figures():
    rows = [(WORDS[n % 6], n % 2, n) for n in range(60)]
    found = []
    for (word, odd), group in grouped(rows, lambda row: row[:2]):
        numbers = [n for *_, n in group]
        found.append((word, odd, numbers[0], numbers[-1], sorted(numbers), len({n % 5 for n in numbers}), max(numbers)))
    return found


@program(keyed_figures, avoids=("streaming",))
def column_aggregates_of_several_keys(inputs):
    rows = inputs.records([(WORDS[n % 6], n % 2, n) for n in range(60)]).as_columns("w string, odd int, n bigint")
    totals = rows.key_by("w", "odd").aggregate(
        first=first("n"),
        last=last("n"),
        all=collect("n"),
        kinds=count_distinct(lambda batch: pa.array(batch["n"].to_numpy() % 5)),
        most=max_by("n", by="n"),
    )
    return totals.as_records().map(lambda row: (*tuple(row)[:4], sorted(row.all), row.kinds, row.most))


@program(lambda: [(k, sum(n for key, n, _ in PAIRS if key == k)) for k in ("k0", "k1", "k2", "k3")])
def column_running_totals(inputs):
    """A running result grows, so the largest one is the total, whatever the batches were."""
    rows = inputs.records(Timed((pair, pair[1]) for pair in PAIRS)).map(inputs.stumble(), ROWS).as_columns(max_rows=4)
    totals = rows.key_by("k").aggregate(total=sum_("n"))
    whole = totals.key_by("k").window(TumblingEventTimeWindows.of(ms(1000))).aggregate(total=max_("total"))
    return whole.as_records().map(tuple)
