"""Query 7: the highest bids of every ten seconds.

Highest prices are found in two steps, so that all subtasks share the work: of a part of the bids, then of all. Then
each bid is joined with the windows that have its price as their highest. As in the query's SQL, a bid at the very end
of a window counts for it, too.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import ProcessJoinFunction
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.events import BID, bids

TEN_SECONDS = TumblingEventTimeWindows.of(Time.seconds(10))


class TheBid(ProcessJoinFunction):
    def process_element(self, bid, highest, ctx):
        yield bid.auction, bid.price, bid.bidder, bid.date_time, bid.extra


def query(events):
    offers = bids(events)
    prices = offers.map(lambda bid: bid.price, Types.LONG())
    of_parts = prices.key_by(lambda price: price % 16).window(TEN_SECONDS).reduce(max)
    highest = of_parts.window_all(TEN_SECONDS).reduce(max)  # has the last millisecond of its window as its time

    by_price = offers.map(lambda bid: bid, BID).key_by(lambda bid: bid.price)
    joined = by_price.interval_join(highest.key_by(lambda price: price))
    return joined.between(Time.milliseconds(-1), Time.milliseconds(9_999)).process(TheBid())
