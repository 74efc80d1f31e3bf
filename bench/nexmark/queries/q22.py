"""Query 22: bids with the directories of their URL."""

from nexmark.events import bids


def with_directories(bid):
    _, _, _, first, second, third, *_ = bid.url.split("/")
    return bid.auction, bid.bidder, bid.price, bid.channel, first, second, third


def query(events):
    return bids(events).map(with_directories)
