"""Query 15: for each day, how many bids, bidders and auctions there were, in all and by rank of price.

A day is one key, and one subtask could not count it all. So bidders are told apart by the subtask that has their key,
and auctions likewise, each of which says only what is new; bids are counted second by second. What is left for the one
that adds up is a small part of the bids.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import KeyedProcessFunction, ProcessWindowFunction
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.events import bids
from nexmark.queries.q5 import Count
from nexmark.queries.q16 import DAY_MS, LONG, day_of, rank_of


class New(KeyedProcessFunction):
    """Gives (day, column, 1) when somebody or something was not seen on a day before, in all or in a rank of price."""

    def __init__(self, column):
        self.column = column

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("ranks", LONG))

    def process_element(self, value, ctx):
        day, _, rank = value
        ranks = self.seen.value() or 0
        if not ranks & 1 << rank:
            self.seen.update(ranks | 1 | 1 << rank)
            yield day, self.column + rank, 1
            if not ranks:
                yield day, self.column, 1


class OfColumns(ProcessWindowFunction):
    """Gives (day, column, count) of a window's bids, for their rank and for all."""

    def process(self, key, context, counts):
        day, rank, _ = key
        for count in counts:
            yield day, rank, count
            yield day, 0, count


class AddedUp(KeyedProcessFunction):
    """Gives (day, twelve counts) with each change."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", Types.TUPLE([LONG] * 12)))

    def process_element(self, change, ctx):
        day, column, count = change
        counts = list(self.counts.value() or (0,) * 12)
        counts[column] += count
        self.counts.update(tuple(counts))
        yield day_of(day), *counts


def query(events):
    offers = bids(events).map(lambda bid: (bid.date_time // DAY_MS, bid.bidder, bid.auction, rank_of(bid.price)))
    bidders = offers.map(lambda offer: (offer[0], offer[1], offer[3])).key_by(lambda offer: offer[:2]).process(New(4))
    lots = offers.map(lambda offer: (offer[0], offer[2], offer[3])).key_by(lambda offer: offer[:2]).process(New(8))
    by_rank = offers.key_by(lambda offer: (offer[0], offer[3], offer[1] % 16))
    counted = by_rank.window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(Count(), OfColumns())
    return bidders.union(lots, counted).key_by(lambda change: change[0]).process(AddedUp())
