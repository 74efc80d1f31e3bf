"""Query 2: the bids on some auctions, and their price."""

from nexmark.column_events import bids


def query(events):
    return bids(events).filter(lambda batch: batch["auction"].to_numpy() % 123 == 0).select("auction", "price")
