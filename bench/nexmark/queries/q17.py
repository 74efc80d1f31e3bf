"""Query 17: what was bid on each auction on each day: how often, by rank of price, least, most, average, in all."""

from nexmark.events import bids
from nexmark.queries.q16 import DAY_MS, day_of, rank_of


def of_bid(bid):
    rank, price = rank_of(bid.price), bid.price
    return (bid.auction, bid.date_time // DAY_MS), 1, rank == 1, rank == 2, rank == 3, price, price, price


def together(a, b):
    return a[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], min(a[5], b[5]), max(a[6], b[6]), a[7] + b[7]


def as_row(value):
    (auction, day), total, rank1, rank2, rank3, least, most, in_all = value
    return auction, day_of(day), total, int(rank1), int(rank2), int(rank3), least, most, in_all // total, in_all


def query(events):
    return bids(events).map(of_bid).key_by(lambda value: value[0]).reduce(together).map(as_row)
