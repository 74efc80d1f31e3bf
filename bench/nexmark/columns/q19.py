"""Query 19: the ten highest bids on each auction, with their rank; of equal ones the first comes first."""

from nexmark.column_events import bids


def query(events):
    return bids(events).key_by("auction").top(10, by="price", rank="rank_number")
