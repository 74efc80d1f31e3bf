"""Query 7: the highest bids of every ten seconds.

Of each batch only the highest bids go on to where the highest one is found. Then each bid is joined with the windows
that have its price as their highest. As in the query's SQL, a bid at the very end of a window counts for it, too.
"""

import polars as pl
import pyarrow.compute as pc

from flinkbuf.common import Time
from flinkbuf.datastream.columns import max_
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.column_events import bids

TEN_SECONDS = TumblingEventTimeWindows.of(Time.seconds(10))


def query(events):
    offers = bids(events).select("auction", "price", "bidder", "date_time", "extra")
    prices = offers.select("price", window=pc.floor_temporal(pc.field("date_time"), 10, "second"))
    of_batches = prices.filter(pl.col("price") == pl.col("price").max().over("window"))
    highest = of_batches.key_by("window").window(TEN_SECONDS).aggregate(highest=max_("price")).drop("window")
    both = offers.key_by("price").join(highest.key_by("highest"))  # which has the last millisecond as its time
    return both.between(Time.milliseconds(-1), Time.milliseconds(9_999)).drop("highest")
