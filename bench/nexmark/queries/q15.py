"""Query 15: for each day, how many bids, bidders and auctions there were, in all and by rank of price.

A day is one key, and one subtask could not count it all. So bids are counted second by second where they are. Bidders
are told apart by the subtask that has their key, which is sent the ranks of each bidder's bids of a second, and says
only what is new; auctions likewise. What is left for the one that adds up is a small part of the bids.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import KeyedProcessFunction, ProcessWindowFunction
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.events import bids
from nexmark.queries.q5 import Count
from nexmark.queries.q16 import DAY_MS, LONG, day_of, rank_of

PAIR, SEEN = Types.TUPLE([LONG] * 2), Types.TUPLE([LONG] * 3)
A_SECOND = TumblingEventTimeWindows.of(Time.seconds(1))


class New(KeyedProcessFunction):
    """Gives (day, column, 1) when somebody or something was not seen on a day before, in all or in a rank of price.

    Takes (day, who or what, ranks); ranks are bits, the lowest for all of them.
    """

    def __init__(self, column):
        self.column = column

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("ranks", LONG))

    def process_element(self, value, ctx):
        day, _, ranks = value
        seen = self.seen.value() or 0
        new = ranks & ~seen
        if new:
            self.seen.update(seen | ranks)
            for rank in range(4):
                if new & 1 << rank:
                    yield day, self.column + rank, 1


class OfColumns(ProcessWindowFunction):
    """Gives (day, column, count) of a window's bids, for their rank and for all."""

    def process(self, key, context, counts):
        day, rank = key
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


def ranks_of_both(a, b):
    return a[0], a[1], a[2] | b[2]


def each_second(seen):
    """Give the ranks of everybody's bids of a second, or of the bids on everything."""
    by_who = seen.key_by(lambda each: each[:2], PAIR)
    return by_who.window(A_SECOND).reduce(ranks_of_both, two_phase=True).key_by(lambda each: each[:2], PAIR)


def query(events):
    offers = bids(events).map(lambda bid: (bid.date_time // DAY_MS, bid.bidder, bid.auction, rank_of(bid.price)))
    bidders = offers.map(lambda offer: (offer[0], offer[1], 1 | 1 << offer[3]), SEEN)
    lots = offers.map(lambda offer: (offer[0], offer[2], 1 | 1 << offer[3]), SEEN)
    by_rank = offers.key_by(lambda offer: (offer[0], offer[3]), PAIR).window(A_SECOND)
    counted = by_rank.aggregate(Count(), OfColumns(), LONG, two_phase=True)
    new = each_second(bidders).process(New(4)).union(each_second(lots).process(New(8)))
    return new.union(counted).key_by(lambda change: change[0]).process(AddedUp())
