"""Query 15: for each day, how many bids, bidders and auctions there were, in all and by rank of price."""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.datastream.columns import count, count_distinct
from nexmark.column_events import bids

RANKS = {0: (0, 2**63 - 1), 1: (0, 10_000), 2: (10_000, 1_000_000), 3: (1_000_000, 2**63 - 1)}
DAY = pc.field("date_time").cast(pa.date32())


def of_rank(column, rank):
    """Return what gives a column where the price is of this rank, and else null, which is not counted."""
    low, high = RANKS[rank]

    def where_it_is(batch):
        price = batch["price"]
        return pc.if_else(pc.and_(pc.greater_equal(price, low), pc.less(price, high)), batch[column], None)

    return where_it_is if rank else column


TWELVE = {
    **{f"bids{rank}": count(of_rank("price", rank)) for rank in RANKS},
    **{f"bidders{rank}": count_distinct(of_rank("bidder", rank)) for rank in RANKS},
    **{f"auctions{rank}": count_distinct(of_rank("auction", rank)) for rank in RANKS},
}


def query(events):
    offers = bids(events).select("price", "bidder", "auction", day=DAY)
    return offers.key_by("day").aggregate(**TWELVE).with_columns(day=pc.field("day").cast(pa.string()))
