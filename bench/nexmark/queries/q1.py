"""Query 1: bids in another currency."""

from decimal import Decimal

from nexmark.events import bids

EURO = Decimal("0.908")


def query(events):
    return bids(events).map(lambda bid: (bid.auction, bid.bidder, bid.price * EURO, bid.date_time, bid.extra))
