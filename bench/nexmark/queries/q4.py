"""Query 4: the average closing price of the auctions of each category, as it is so far.

The highest bid of each auction changes while the auction lasts, and each change corrects the average of its category.
"""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedCoProcessFunction, KeyedProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor, ValueStateDescriptor
from nexmark.events import auctions, bids

LONG = Types.LONG()


class HighestBids(KeyedCoProcessFunction):
    """Gives (category, price before, price now) whenever an auction has a higher bid; 0: there was none."""

    def open(self, runtime_context):
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", Types.TUPLE([LONG, LONG, LONG])))
        self.highest = runtime_context.get_state(ValueStateDescriptor("highest", LONG))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.TUPLE([LONG, LONG])))

    def process_element1(self, auction, ctx):
        _, *auction = auction
        self.auction.update(tuple(auction))
        for price, date_time in self.waiting.get():
            yield from self.bid(auction, price, date_time)
        self.waiting.clear()

    def process_element2(self, bid, ctx):
        _, price, date_time = bid
        auction = self.auction.value()
        if auction is None:
            self.waiting.add((price, date_time))
        else:
            yield from self.bid(auction, price, date_time)

    def bid(self, auction, price, date_time):
        category, begins, expires = auction
        highest = self.highest.value() or 0
        if price > highest and begins <= date_time <= expires:
            self.highest.update(price)
            yield category, highest, price


class Average(KeyedProcessFunction):
    """Gives (category, average) whenever it changes."""

    def open(self, runtime_context):
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums", Types.TUPLE([LONG, LONG])))

    def process_element(self, change, ctx):
        category, before, now = change
        total, count = self.sums.value() or (0, 0)
        total, count = total + now - before, count + (before == 0)
        self.sums.update((total, count))
        yield category, total // count


def query(events):
    lots = auctions(events).map(lambda auction: (auction.id, auction.category, auction.date_time, auction.expires))
    offers = bids(events).map(lambda bid: (bid.auction, bid.price, bid.date_time))
    highest = lots.connect(offers).key_by(lambda lot: lot[0], lambda offer: offer[0]).process(HighestBids())
    return highest.key_by(lambda change: change[0]).process(Average())
