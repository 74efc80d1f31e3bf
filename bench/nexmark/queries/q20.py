"""Query 20: bids with their auction, for auctions of category 10. Either may come first, and nothing is forgotten."""

from flinkbuf.datastream import KeyedCoProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor, ValueStateDescriptor
from nexmark.events import AUCTION, BID, auctions, bids


class BidsWithAuction(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", AUCTION))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", BID))

    def process_element1(self, bid, ctx):
        auction = self.auction.value()
        if auction is None:
            self.waiting.add(bid)
        else:
            yield *bid, *auction[1:]

    def process_element2(self, auction, ctx):
        self.auction.update(auction)
        for bid in self.waiting.get():
            yield *bid, *auction[1:]
        self.waiting.clear()


def query(events):
    lots = auctions(events).filter(lambda auction: auction.category == 10).map(lambda auction: auction, AUCTION)
    offers = bids(events).map(lambda bid: bid, BID)
    return offers.connect(lots).key_by(lambda bid: bid.auction, lambda lot: lot.id).process(BidsWithAuction())
