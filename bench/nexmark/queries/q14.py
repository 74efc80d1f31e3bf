"""Query 14: bids of a middling price in another currency, with the time of day and a count of letters."""

from decimal import Decimal

from nexmark.events import bids
from nexmark.queries.q1 import EURO

DAY = {
    hour: "nightTime" if hour <= 6 or hour >= 20 else "dayTime" if 8 <= hour <= 18 else "otherTime"
    for hour in range(24)
}
LOW, HIGH = Decimal(1_000_000), Decimal(50_000_000)


def with_time_of_day(bid):
    hour = bid.date_time // 3_600_000 % 24
    return bid.auction, bid.bidder, bid.price * EURO, DAY[hour], bid.date_time, bid.extra, bid.extra.count("c")


def query(events):
    return bids(events).filter(lambda bid: LOW < bid.price * EURO < HIGH).map(with_time_of_day)
