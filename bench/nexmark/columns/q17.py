"""Query 17: what was bid on each auction on each day: how often, by rank of price, least, most, average, in all."""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.datastream.columns import count, max_, min_, sum_
from nexmark.column_events import bids
from nexmark.columns.q15 import DAY, of_rank

COUNTS = {"total": count(), **{f"rank{rank}": count(of_rank("price", rank)) for rank in (1, 2, 3)}}


def query(events):
    offers = bids(events).select("auction", "price", day=DAY).key_by("auction", "day")
    prices = offers.aggregate(**COUNTS, least=min_("price"), most=max_("price"), in_all=sum_("price"))
    return prices.select(
        "auction",
        day=pc.field("day").cast(pa.string()),
        **{name: name for name in (*COUNTS, "least", "most")},
        average=pc.divide(pc.field("in_all"), pc.field("total")),
        in_all="in_all",
    )
