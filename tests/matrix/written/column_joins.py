"""Joins of column streams: in windows, by how far times are apart, and of all rows; each kind of them."""

from flinkbuf.common.time import Time
from flinkbuf.datastream import ProcessFunction
from flinkbuf.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkbuf.streaming.columns.column_joins import KINDS
from matrix.models import fixed_windows
from matrix.program import program
from matrix.sources import Timed
from matrix.written.windows import ms

LEFT_ROWS, RIGHT_ROWS = "k string, odd int, n bigint", "w string, m double, uneven int"
WORDS = ["a", "", None, "é", "a\0"]
LEFT = Timed(((WORDS[n % 5], n % 2, n), 9 * n + (n * 53) % 70 - 30) for n in range(45))
RIGHT = Timed(((WORDS[n % 4], n / 2, n % 3), 14 * n + (n * 31) % 50 - 20) for n in range(30))


class WithTime(ProcessFunction):
    """A row as a tuple, and its timestamp."""

    def process_element(self, value, ctx):
        yield tuple(value), ctx.timestamp()


def joined(kind, left, right, are_partners, stamp):
    """Results of (row, time) pairs with the timestamps that `stamp` gives, of the two times; None: no partner."""
    has_same_key = [(one, two) for one in left for two in right if one[0][:2] == (two[0][0], two[0][2])]
    pairs = [(one, two) for one, two in has_same_key if are_partners(one[1], two[1])]
    alone = [one for one in left if not any(one is each for each, _ in pairs)]
    if kind == "anti":
        return [(row, stamp(time, None)) for row, time in alone]
    if kind == "semi":  # given when the first partner is there: which one that is, the order of both sides says
        return [one[0] for one in left if any(one is each for each, _ in pairs)]
    found = [(one[0] + two[0], stamp(one[1], two[1])) for one, two in pairs]
    if kind in ("left", "full"):
        found += [(row + (None,) * 3, stamp(time, None)) for row, time in alone]
    if kind in ("right", "full"):
        alone = [two for two in right if not any(two is each for _, each in pairs)]
        found += [((None,) * 3 + row, stamp(None, time)) for row, time in alone]
    return found


def in_windows(kind, size, slide=None):
    found = []
    starts = {start for _, time in LEFT + RIGHT for start, _ in fixed_windows(time, size, slide, 3)}
    for start in starts:
        left, right = ([one for one in side if start <= one[1] < start + size] for side in (LEFT, RIGHT))
        found += joined(kind, left, right, lambda one, two: True, lambda one, two, end=start + size: end - 1)
    return found


def keyed(inputs):
    """Both sides by two columns, of which the first is null at times."""
    left = inputs.records(LEFT).map(inputs.stumble(), LEFT_ROWS).as_columns(max_rows=4)
    right = inputs.records(RIGHT).as_columns(RIGHT_ROWS, max_rows=7)
    return left.key_by("k", "odd"), right.key_by("w", "uneven")


def told(kind, stream):
    """Records of results, with their times where the program determines them."""
    return stream.as_records().map(tuple) if kind == "semi" else stream.as_records().process(WithTime())


@program(lambda: {kind: in_windows(kind, 60) for kind in KINDS})
def column_window_joins(inputs):
    left, right = keyed(inputs)
    windows = TumblingEventTimeWindows.of(ms(60), ms(3))
    return {kind: told(kind, left.join(right, kind).window(windows)) for kind in KINDS}


@program(lambda: {kind: in_windows(kind, 60, 25) for kind in ("full", "semi")})
def column_joins_in_sliding_windows(inputs):
    left, right = keyed(inputs)
    windows = SlidingEventTimeWindows.of(ms(60), ms(25), ms(3))
    return {kind: told(kind, left.join(right, kind).window(windows)) for kind in ("full", "semi")}


def near(kind, lower, upper):
    """What an interval join gives; a row alone, when no partner can come any more."""

    def stamp(one, two):
        if one is None:
            return two + max(-lower, 0)
        return one + max(upper, 0) if two is None else max(one, two)

    return joined(kind, LEFT, RIGHT, lambda one, two: lower <= two - one <= upper, stamp)


@program(lambda: {kind: near(kind, -30, 55) for kind in KINDS})
def column_interval_joins(inputs):
    left, right = keyed(inputs)
    return {kind: told(kind, left.join(right, kind).between(ms(-30), ms(55))) for kind in KINDS}


@program(lambda: {kind: near(kind, 10, 40) for kind in ("left", "full", "anti")})
def column_interval_joins_with_later_rows(inputs):
    left, right = keyed(inputs)
    return {kind: told(kind, left.join(right, kind).between(ms(10), ms(40))) for kind in ("left", "full", "anti")}


def whole(kind):
    def stamp(one, two):
        return max(time for time in (one, two) if time is not None)

    return joined(kind, LEFT, RIGHT, lambda one, two: True, stamp)


@program(lambda: {kind: whole(kind) for kind in KINDS})
def column_joins_of_all_rows(inputs):
    """Rows are kept for longer than the program runs."""
    left, right = keyed(inputs)
    streams = {kind: left.join(right, kind).time_to_live(Time.hours(1)) for kind in KINDS}
    return {kind: told(kind, stream).map(inputs.stumble("output")) for kind, stream in streams.items()}
