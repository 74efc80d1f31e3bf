"""Query 18: the last bid of everybody on each auction; of several in one millisecond the one that came last."""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction
from flinkbuf.datastream.state import ValueStateDescriptor
from nexmark.events import BID, bids


class Last(KeyedProcessFunction):
    """Gives a bid that is the last one so far."""

    def open(self, runtime_context):
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element(self, bid, ctx):
        latest = self.latest.value()
        if latest is None or bid.date_time >= latest:
            self.latest.update(bid.date_time)
            yield bid


def query(events):
    return bids(events).map(lambda bid: bid, BID).key_by(lambda bid: (bid.bidder, bid.auction)).process(Last())
