"""What each query has to give, in plain Python over a list of events in the order of their times.

Of queries that correct themselves it is what is left in the end.
"""

from collections import Counter, defaultdict
from datetime import datetime, timezone
from decimal import Decimal


class Events:
    """The events, and those of each kind."""

    def __init__(self, events):
        kinds = defaultdict(list)
        for event in sorted(events, key=lambda event: event.date_time):
            kinds[type(event).__name__].append(event)
        self.persons, self.auctions, self.bids = kinds["Person"], kinds["Auction"], kinds["Bid"]


def q0(e):
    return [(b.auction, b.bidder, b.price, b.date_time, b.extra) for b in e.bids]


def q1(e):
    return [(b.auction, b.bidder, Decimal(b.price * 908) / 1000, b.date_time, b.extra) for b in e.bids]


def q2(e):
    return [(b.auction, b.price) for b in e.bids if b.auction % 123 == 0]


def q3(e):
    people = {p.id: p for p in e.persons if p.state in ("OR", "ID", "CA")}
    found = [(people[a.seller], a.id) for a in e.auctions if a.category == 10 and a.seller in people]
    return [(p.name, p.city, p.state, auction) for p, auction in found]


def winning(e):
    """Each auction with its winning bid."""
    best = {}
    auctions = {a.id: a for a in e.auctions}
    for b in e.bids:
        a = auctions.get(b.auction)
        if (
            a is not None
            and a.date_time <= b.date_time <= a.expires
            and (a.id not in best or b.price > best[a.id].price)
        ):
            best[a.id] = b
    return [(auctions[key], b) for key, b in best.items()]


def q4(e):
    prices = defaultdict(list)
    for a, b in winning(e):
        prices[a.category].append(b.price)
    return [(category, sum(found) // len(found)) for category, found in prices.items()]


def q5(e):
    counts = defaultdict(Counter)
    for b in e.bids:
        last = b.date_time // 2000 * 2000
        for start in range(last - 8000, last + 1, 2000):
            counts[start][b.auction] += 1
    return [pair for each in counts.values() for pair in each.items() if pair[1] == max(each.values())]


def q6(e):
    prices, averages = defaultdict(list), []
    for a, b in sorted(winning(e), key=lambda pair: (pair[0].expires, pair[0].id)):
        prices[a.seller].append(b.price)
        last = prices[a.seller][-10:]
        averages.append((a.seller, sum(last) // len(last)))
    return averages


def q7(e):
    highest = defaultdict(int)
    for b in e.bids:
        end = b.date_time // 10_000 * 10_000 + 10_000
        highest[end] = max(highest[end], b.price)
    return [
        (b.auction, b.price, b.bidder, b.date_time, b.extra)
        for end, price in highest.items()
        for b in e.bids
        if b.price == price and end - 10_000 <= b.date_time <= end
    ]


def q8(e):
    sellers = {(a.seller, a.date_time // 10_000) for a in e.auctions}
    return [
        (p.id, p.name, p.date_time // 10_000 * 10_000) for p in e.persons if (p.id, p.date_time // 10_000) in sellers
    ]


def q9(e):
    return [(*a, b.auction, b.bidder, b.price, b.date_time, b.extra) for a, b in winning(e)]


def at(date_time, shape):
    return datetime.fromtimestamp(date_time // 1000, timezone.utc).strftime(shape)


def q10(e):
    return [
        (
            at(b.date_time, "dt=%Y-%m-%d/hm=%H:%M"),
            '{},{},{},{},"{}"'.format(b.auction, b.bidder, b.price, b.date_time, b.extra.replace('"', '""')),
        )
        for b in e.bids
    ]


def q11(e):
    times, sessions = defaultdict(list), []
    for b in e.bids:
        times[b.bidder].append(b.date_time)
    for bidder, found in times.items():
        start = last = found[0]
        count = 0
        for time in [*found, None]:
            if time is None or time - last > 10_000:  # windows that touch are one: TimeWindow.intersects
                sessions.append((bidder, count, start, last + 10_000))
                start, count = time, 0
            last, count = time, count + 1
    return sessions


def q12(e):
    return [(len(e.bids),)]


def q13(e):
    return [(b.auction, b.bidder, b.price, b.date_time, str(b.auction % 10_000)) for b in e.bids]


def q14(e):
    rows = []
    for b in e.bids:
        price, hour = Decimal(b.price * 908) / 1000, int(at(b.date_time, "%H"))
        if 1_000_000 < price < 50_000_000:
            name = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
            rows.append((b.auction, b.bidder, price, name, b.date_time, b.extra, b.extra.count("c")))
    return rows


def twelve(found):
    ranks = [found] + [
        [b for b in found if low <= b.price < high]
        for low, high in ((0, 10_000), (10_000, 1_000_000), (1_000_000, 10**12))
    ]
    counts = [len(rank) for rank in ranks]
    return [
        *counts,
        *(len({b.bidder for b in rank}) for rank in ranks),
        *(len({b.auction for b in rank}) for rank in ranks),
    ]


def groups(bids, key):
    found = defaultdict(list)
    for b in bids:
        found[key(b)].append(b)
    return found.items()


def day(b):
    return at(b.date_time, "%Y-%m-%d")


def q15(e):
    return [(name, *twelve(found)) for name, found in groups(e.bids, day)]


def q16(e):
    return [
        (channel, name, max(at(b.date_time, "%H:%M") for b in found), *twelve(found))
        for (channel, name), found in groups(e.bids, lambda b: (b.channel, day(b)))
    ]


def q17(e):
    rows = []
    for (auction, name), found in groups(e.bids, lambda b: (b.auction, day(b))):
        prices = [b.price for b in found]
        least, most, in_all = min(prices), max(prices), sum(prices)
        rows.append((auction, name, *twelve(found)[:4], least, most, in_all // len(prices), in_all))
    return rows


def q18(e):
    return [tuple(found[-1]) for _, found in groups(e.bids, lambda b: (b.bidder, b.auction))]


def q19(e):
    return [
        (*b, rank)
        for _, found in groups(e.bids, lambda b: b.auction)
        for rank, b in enumerate(sorted(found, key=lambda b: -b.price)[:10], start=1)
    ]


def q20(e):
    auctions = {a.id: a for a in e.auctions if a.category == 10}
    return [(*b, *auctions[b.auction][1:]) for b in e.bids if b.auction in auctions]


def q21(e):
    known, rows = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}, []
    for b in e.bids:
        in_url = b.url.partition("&channel_id=")[2].partition("&")[0]
        channel_id = known.get(b.channel.lower(), in_url)
        if channel_id:
            rows.append((b.auction, b.bidder, b.price, b.channel, channel_id))
    return rows


def q22(e):
    return [(b.auction, b.bidder, b.price, b.channel, *b.url.split("/")[3:6]) for b in e.bids]


def q23(e):
    people, lots = {p.id: p for p in e.persons}, defaultdict(list)
    for a in e.auctions:
        lots[a.seller].append(a)
    return [
        (b.bidder, b.price, b.channel, b.url, b.extra, *p[:6], p.extra, *a[1:])
        for b in e.bids
        if (p := people.get(b.bidder)) is not None
        for a in lots[b.bidder]
    ]


ORACLES = {name: found for name, found in list(globals().items()) if name[0] == "q" and name[1:].isdigit()}
