"""Query 7: the highest bids of every ten seconds.

Highest prices are found in two phases, so that all subtasks share the work: of the bids of each, then of all. Then
each bid is joined with the windows that have its price as their highest. As in the query's SQL, a bid at the very end
of a window counts for it, too.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import ProcessJoinFunction
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.events import bids

LONG = Types.LONG()
OFFER = Types.TUPLE([LONG, LONG, LONG, LONG, Types.STRING()])
TEN_SECONDS = TumblingEventTimeWindows.of(Time.seconds(10))


class TheOffer(ProcessJoinFunction):
    def process_element(self, offer, highest, ctx):
        yield offer


def query(events):
    offers = bids(events).map(lambda bid: (bid.auction, bid.price, bid.bidder, bid.date_time, bid.extra), OFFER)
    prices = offers.map(lambda offer: offer[1], LONG)
    of_all = prices.key_by(lambda price: 0, LONG)
    highest = of_all.window(TEN_SECONDS).reduce(
        max, two_phase=True
    )  # has the last millisecond of its window as its time

    by_price = offers.key_by(lambda offer: offer[1]).interval_join(highest.key_by(lambda price: price))
    return by_price.between(Time.milliseconds(-1), Time.milliseconds(9_999)).process(TheOffer())
