"""Query 16: for each channel and day, how many bids, bidders and auctions there were, in all and by rank of price."""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.datastream.columns import max_
from nexmark.column_events import bids
from nexmark.columns.q15 import DAY, TWELVE

MINUTES = pa.array([f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(24 * 60)])


def minute_of(batch):
    latest = batch["latest"]
    return MINUTES.take(pc.add(pc.multiply(pc.hour(latest), 60), pc.minute(latest)))


def query(events):
    offers = bids(events).select("channel", "price", "bidder", "auction", "date_time", day=DAY)
    statistics = offers.key_by("channel", "day").aggregate(latest=max_("date_time"), **TWELVE)
    twelve = {name: name for name in TWELVE}
    return statistics.select("channel", day=pc.field("day").cast(pa.string()), minute=minute_of, **twelve)
