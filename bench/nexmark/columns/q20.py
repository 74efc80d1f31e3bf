"""Query 20: bids with their auction, for auctions of category 10. Either may come first, and nothing is forgotten."""

import pyarrow.compute as pc

from nexmark.column_events import auctions, bids
from nexmark.columns.q3 import FOREVER


def query(events):
    lots = auctions(events).filter(pc.field("category") == 10).rename(date_time="begins", extra="lot_extra")
    return bids(events).key_by("auction").join(lots.key_by("id")).time_to_live(FOREVER).drop("id")
