"""What happens on the auction site: three kinds of events, and the streams of each."""

from typing import NamedTuple

from flinkbuf.common import Duration, Types


class Person(NamedTuple):
    """Somebody has registered."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: int  # milliseconds since 1970, as all times
    extra: str


class Auction(NamedTuple):
    """Somebody sells something."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """Somebody would pay so many cents."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str


LATENESS = Duration.of_seconds(4)  # of the latest event behind the first
LONG, STRING = Types.LONG(), Types.STRING()


def row_type(kind):
    """Return the type of rows with the fields of `kind`; fields keep their names on the way to another task."""
    types = [LONG if field is int else STRING for field in kind.__annotations__.values()]
    return Types.ROW_NAMED(list(kind._fields), types)


PERSON, AUCTION, BID = row_type(Person), row_type(Auction), row_type(Bid)


def persons(events):
    """Return the persons among all events."""
    return events.filter(lambda event: type(event) is Person).name("persons")


def auctions(events):
    """Return the auctions among all events."""
    return events.filter(lambda event: type(event) is Auction).name("auctions")


def bids(events):
    """Return the bids among all events."""
    return events.filter(lambda event: type(event) is Bid).name("bids")
