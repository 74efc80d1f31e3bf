"""Query 16: for each channel and day, how many bids, bidders and auctions there were, in all and by rank of price."""

from datetime import datetime, timezone
from functools import lru_cache

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction
from flinkbuf.datastream.state import MapStateDescriptor, ValueStateDescriptor
from nexmark.events import bids

LONG = Types.LONG()
DAY_MS = 86_400_000


@lru_cache
def day_of(day_number):
    return f"{datetime.fromtimestamp(day_number * 86_400, timezone.utc):%Y-%m-%d}"


def rank_of(price):
    return 1 if price < 10_000 else 2 if price < 1_000_000 else 3


class Statistics(KeyedProcessFunction):
    """Keeps twelve counts; which ranks a bidder or an auction was seen in are bits, the lowest for all ranks."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", Types.TUPLE([LONG] * 12)))
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", LONG))
        self.seen = [
            runtime_context.get_map_state(MapStateDescriptor(name, LONG, LONG)) for name in ("bidders", "auctions")
        ]

    def process_element(self, bid, ctx):
        channel, day, price, bidder, auction, date_time = bid
        rank = rank_of(price)
        counts = list(self.counts.value() or (0,) * 12)
        counts[0] += 1
        counts[rank] += 1
        for first, seen, one in ((4, self.seen[0], bidder), (8, self.seen[1], auction)):
            ranks = seen.get(one) or 0
            if not ranks & 1 << rank:
                seen.put(one, ranks | 1 | 1 << rank)
                counts[first + rank] += 1
                counts[first] += not ranks
        self.counts.update(tuple(counts))
        minute = max(self.latest.value() or 0, date_time // 60_000)
        self.latest.update(minute)
        yield channel, day_of(day), f"{minute // 60 % 24:02d}:{minute % 60:02d}", *counts


def query(events):
    offers = bids(events).map(
        lambda bid: (bid.channel, bid.date_time // DAY_MS, bid.price, bid.bidder, bid.auction, bid.date_time)
    )
    return offers.key_by(lambda offer: offer[:2]).process(Statistics())
