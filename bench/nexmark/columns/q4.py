"""Query 4: the average closing price of the auctions of each category, as it is so far.

The highest bid of each auction rises while the auction lasts, and each rise corrects the average of its category.
"""

import numpy as np
import pyarrow.compute as pc

from flinkbuf.datastream.columns import KeyedBatchFunction, sum_
from nexmark.column_events import auctions, bids
from nexmark.columns.q3 import FOREVER

IS_IN_TIME = (pc.field("date_time") <= pc.field("bid_time")) & (pc.field("bid_time") <= pc.field("expires"))


class Rises(KeyedBatchFunction):
    """Gives by how much the highest bid of each auction has risen, and 1 for the first one."""

    def open(self, runtime_context):
        self.highest = runtime_context.get_column_state("highest", "price bigint")

    def process_batch(self, batch, context):
        begins = context.offsets[:-1]
        before = self.highest.get(context.keys)["price"]
        price = before.fill_null(0).to_numpy()
        highest = np.maximum(price, np.maximum.reduceat(batch["price"].to_numpy(), begins))
        self.highest.put(context.keys, {"price": highest})
        yield {
            "category": batch["category"].take(begins),
            "rise": highest - price,
            "auctions": pc.is_null(before).cast("int64"),
        }


def query(events):
    lots = auctions(events).select("id", "category", "date_time", "expires")
    offers = bids(events).select("auction", "price", bid_time="date_time")
    in_time = lots.key_by("id").join(offers.key_by("auction")).time_to_live(FOREVER).filter(IS_IN_TIME)
    rises = in_time.key_by("id").process_batches(Rises(), "category bigint, rise bigint, auctions bigint")
    sums = rises.key_by("category").aggregate(prices=sum_("rise"), auctions=sum_("auctions"))
    return sums.select("category", average=pc.divide(pc.field("prices"), pc.field("auctions")))
