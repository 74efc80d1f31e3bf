"""Query 17: what was bid on each auction on each day: how often, by rank of price, least, most, average, in all.

Only what is counted goes to the subtask that has the auction; what was counted up to now is state there.
"""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction
from flinkbuf.datastream.state import ValueStateDescriptor
from nexmark.events import bids
from nexmark.queries.q16 import DAY_MS, LONG, day_of, rank_of


class Statistics(KeyedProcessFunction):
    """Gives the row of an auction and a day with each bid."""

    def open(self, runtime_context):
        self.counted = runtime_context.get_state(ValueStateDescriptor("counted", Types.TUPLE([LONG] * 7)))

    def process_element(self, offer, ctx):
        auction, day, price = offer
        total, rank1, rank2, rank3, least, most, in_all = self.counted.value() or (0, 0, 0, 0, price, price, 0)
        rank = rank_of(price)
        if rank == 1:
            rank1 += 1
        elif rank == 2:
            rank2 += 1
        else:
            rank3 += 1
        total, in_all = total + 1, in_all + price
        if price < least:
            least = price
        elif price > most:
            most = price
        self.counted.update((total, rank1, rank2, rank3, least, most, in_all))
        yield auction, day_of(day), total, rank1, rank2, rank3, least, most, in_all // total, in_all


def query(events):
    offers = bids(events).map(lambda bid: (bid.auction, bid.date_time // DAY_MS, bid.price), Types.TUPLE([LONG] * 3))
    return offers.key_by(lambda offer: offer[:2]).process(Statistics())
