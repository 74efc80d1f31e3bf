"""Query 17: what was bid on each auction on each day: how often, by rank of price, least, most, average, in all.

What is counted is reduced where the bids are, and then where the auction is.
"""

from flinkbuf.common import Types
from nexmark.events import bids
from nexmark.queries.q16 import DAY_MS, LONG, day_of

COUNTED = Types.TUPLE([LONG] * 8)  # auction, day, how many of each rank, least, most, in all


def one(bid):
    """What is counted of one bid."""
    price = bid.price
    if price < 10_000:
        return bid.auction, bid.date_time // DAY_MS, 1, 0, 0, price, price, price
    if price < 1_000_000:
        return bid.auction, bid.date_time // DAY_MS, 0, 1, 0, price, price, price
    return bid.auction, bid.date_time // DAY_MS, 0, 0, 1, price, price, price


def together(a, b):
    """What is counted of some bids and of others."""
    auction, day, a1, a2, a3, least, most, in_all = a
    _, _, b1, b2, b3, least_of_b, most_of_b, in_all_of_b = b
    if least_of_b < least:
        least = least_of_b
    if most_of_b > most:
        most = most_of_b
    return auction, day, a1 + b1, a2 + b2, a3 + b3, least, most, in_all + in_all_of_b


def as_row(counted):
    auction, day, rank1, rank2, rank3, least, most, in_all = counted
    total = rank1 + rank2 + rank3
    return auction, day_of(day), total, rank1, rank2, rank3, least, most, in_all // total, in_all


def query(events):
    of_auctions = bids(events).map(one, COUNTED).key_by(lambda counted: counted[:2], Types.TUPLE([LONG] * 2))
    return of_auctions.reduce(together, two_phase=True).map(as_row)
