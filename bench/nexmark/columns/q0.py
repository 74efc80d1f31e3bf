"""Query 0: pass the bids through."""

from nexmark.column_events import bids


def query(events):
    return bids(events).select("auction", "bidder", "price", "date_time", "extra")
