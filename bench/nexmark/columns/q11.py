"""Query 11: how many bids does somebody make in one go? A session ends with ten seconds without a bid."""

from flinkbuf.common import Time
from flinkbuf.datastream.columns import count, window_end, window_start
from flinkbuf.datastream.window import EventTimeSessionWindows
from nexmark.column_events import bids


def query(events):
    sessions = bids(events).select("bidder").key_by("bidder").window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
    return sessions.aggregate(bid_count=count(), starttime=window_start(), endtime=window_end())
