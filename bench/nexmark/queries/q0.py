"""Query 0: pass the bids through."""

from nexmark.events import bids


def query(events):
    return bids(events).map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra))
