"""Query 2: the bids on some auctions, and their price."""

from nexmark.events import bids


def query(events):
    return bids(events).filter(lambda bid: bid.auction % 123 == 0).map(lambda bid: (bid.auction, bid.price))
