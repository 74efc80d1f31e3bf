"""Query 19: the ten highest bids on each auction, with their rank; of equal ones the first comes first.

A bid that is among them moves those below it, so all these are given anew, each with its rank.
"""

from bisect import bisect_right

from flinkbuf.datastream import KeyedProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor
from nexmark.events import BID, bids


class TopTen(KeyedProcessFunction):
    def open(self, runtime_context):
        self.top = runtime_context.get_list_state(ListStateDescriptor("top", BID))

    def process_element(self, bid, ctx):
        top = self.top.get()
        if len(top) == 10 and bid.price <= top[-1].price:
            return
        place = bisect_right(top, -bid.price, key=lambda each: -each.price)
        top = [*top[:place], bid, *top[place:]][:10]
        self.top.update(top)
        for rank, each in enumerate(top[place:], start=place + 1):
            yield *each, rank


def query(events):
    return bids(events).map(lambda bid: bid, BID).key_by(lambda bid: bid.auction).process(TopTen())
