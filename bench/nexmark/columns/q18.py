"""Query 18: the last bid of everybody on each auction; of several in one millisecond the one that came last."""

from nexmark.column_events import bids


def query(events):
    return bids(events).key_by("bidder", "auction").deduplicate("last", by="date_time")
