"""Query 5: which auctions have most bids in the last ten seconds? Every two seconds; all that share the first place."""

import polars as pl

from flinkbuf.common import Time
from flinkbuf.datastream.columns import collect, count, window_end
from flinkbuf.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from nexmark.column_events import bids

HOTTEST = pl.col("num") == pl.col("num").max().over("end")


def hottest(batch):
    """Give the rows of the windows of all subtasks."""
    return pl.from_arrow(batch).explode("auction", "num").filter(HOTTEST).select("auction", "num").to_arrow()


def query(events):
    windows = (
        bids(events)
        .select("auction")
        .key_by("auction")
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
    )
    counts = windows.aggregate(num=count(), end=window_end()).filter(HOTTEST)  # of those that one subtask knows
    ends = counts.key_by("end").window(TumblingEventTimeWindows.of(Time.seconds(2)))
    return ends.aggregate(auction=collect("auction"), num=collect("num")).flat_map_batches(hottest)
