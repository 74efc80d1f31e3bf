"""Query 9: the winning bid of each auction: the highest, of equal ones the earliest.

An auction's result is known when event time has passed its end; by then all is forgotten again.
"""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedCoProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor, ValueStateDescriptor
from nexmark.events import AUCTION, auctions, bids

OFFER = Types.ROW_NAMED(
    ["auction", "bidder", "price", "date_time", "extra"],
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING()],
)


class WinningBids(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", AUCTION))
        self.best = runtime_context.get_state(ValueStateDescriptor("best", OFFER))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", OFFER))

    def process_element1(self, auction, ctx):
        self.auction.update(auction)
        ctx.timer_service().register_event_time_timer(auction.expires)
        for bid in self.waiting.get():
            self.compare(auction, bid)
        self.waiting.clear()

    def process_element2(self, bid, ctx):
        auction = self.auction.value()
        if auction is not None:
            self.compare(auction, bid)
        else:  # its auction comes later, or was over long ago
            self.waiting.add(bid)
            ctx.timer_service().register_event_time_timer(bid.date_time)

    def compare(self, auction, bid):
        if auction.date_time <= bid.date_time <= auction.expires:
            best = self.best.value()
            if best is None or (bid.price, -bid.date_time) > (best.price, -best.date_time):
                self.best.update(bid)

    def on_timer(self, timestamp, ctx):
        auction = self.auction.value()
        if auction is None:  # an auction that comes now begins later, so earlier bids have no use for it
            self.waiting.update([bid for bid in self.waiting.get() if bid.date_time > timestamp])
        elif timestamp == auction.expires:
            best = self.best.value()
            if best is not None:
                yield *auction, *best
            self.auction.clear()
            self.best.clear()


def query(events):
    lots = auctions(events).map(lambda auction: auction, AUCTION)
    offers = bids(events).map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra), OFFER)
    return lots.connect(offers).key_by(lambda lot: lot.id, lambda offer: offer.auction).process(WinningBids())
