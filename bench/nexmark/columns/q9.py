"""Query 9: the winning bid of each auction so far: the highest, of equal ones the earliest.

The bids are compared without what else there is to say of their auction, which is joined to those that win.
"""

import pyarrow.compute as pc

from nexmark.column_events import auctions, bids
from nexmark.columns.q3 import FOREVER

IS_IN_TIME = (pc.field("begins") <= pc.field("bid_time")) & (pc.field("bid_time") <= pc.field("ends"))


def query(events):
    lots = auctions(events)
    offers = bids(events).select("auction", "bidder", "price", bid_time="date_time", bid_extra="extra")
    times = lots.select(lot="id", begins="date_time", ends="expires")
    in_time = offers.key_by("auction").join(times.key_by("lot")).time_to_live(FOREVER).filter(IS_IN_TIME)
    winning = in_time.drop("lot", "begins", "ends").key_by("auction")
    winning = winning.top(1, by=["price", "bid_time"], descending=[True, False])
    return lots.key_by("id").join(winning.key_by("auction")).time_to_live(FOREVER)
