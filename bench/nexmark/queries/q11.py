"""Query 11: how many bids does somebody make in one go? A session ends with ten seconds without a bid."""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import ProcessWindowFunction
from flinkbuf.datastream.window import EventTimeSessionWindows
from nexmark.events import bids
from nexmark.queries.q5 import Count


class WithTimes(ProcessWindowFunction):
    def process(self, bidder, context, counts):
        window = context.window()
        for count in counts:
            yield bidder, count, window.start, window.end


def query(events):
    by_bidder = bids(events).map(lambda bid: bid.bidder, Types.LONG()).key_by(lambda bidder: bidder)
    return by_bidder.window(EventTimeSessionWindows.with_gap(Time.seconds(10))).aggregate(Count(), WithTimes())
