"""Query 5: which auctions have most bids in the last ten seconds? Every two seconds; all that share the first place."""

from flinkbuf.common import Time
from flinkbuf.datastream.columns import count, max_, window_end
from flinkbuf.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from nexmark.column_events import bids

TWO_SECONDS = TumblingEventTimeWindows.of(Time.seconds(2))


def query(events):
    by_auction = bids(events).select("auction").key_by("auction")
    windows = by_auction.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
    counts = windows.aggregate(num=count(), end=window_end())
    most = counts.key_by("end").window(TWO_SECONDS).aggregate(num=max_("num"))
    hottest = counts.key_by("end", "num").join(most.key_by("end", "num"), how="semi")
    return hottest.window(TWO_SECONDS).select("auction", "num")
