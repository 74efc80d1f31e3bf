"""Query 1: bids in another currency."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from nexmark.column_events import bids

EURO = pa.scalar(Decimal("0.908"))


def in_euros(batch):
    return pc.multiply(batch["price"].cast(pa.decimal128(19)), EURO)


def query(events):
    return bids(events).select("auction", "bidder", price=in_euros, date_time="date_time", extra="extra")
