"""Query 23: bids of people who have something to sell themselves, with the person and each of their auctions.

A join of three streams is two joins in a row; each keeps both of its sides, since nobody says what comes first.
"""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedCoProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor
from nexmark.events import AUCTION, BID, PERSON, auctions, bids, persons


class Pairs(KeyedCoProcessFunction):
    """Each pair of records of one key, whichever comes first."""

    def __init__(self, left_type, right_type):
        self.types = left_type, right_type

    def open(self, runtime_context):
        left_type, right_type = self.types
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", left_type))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", right_type))

    def process_element1(self, left, ctx):
        self.left.add(left)
        for right in self.right.get():
            yield left, right

    def process_element2(self, right, ctx):
        self.right.add(right)
        for left in self.left.get():
            yield left, right


def as_row(joined):
    (bid, person), lot = joined
    return (
        *(bid.bidder, bid.price, bid.channel, bid.url, bid.extra),
        *(person.id, person.name, person.email_address, person.credit_card, person.city, person.state, person.extra),
        *(lot.item_name, lot.description, lot.initial_bid, lot.reserve, lot.date_time, lot.expires),
        *(lot.seller, lot.category, lot.extra),
    )


def query(events):
    offers, people = bids(events).map(lambda bid: bid, BID), persons(events).map(lambda person: person, PERSON)
    lots = auctions(events).map(lambda auction: auction, AUCTION)
    bidders = (
        offers.connect(people).key_by(lambda bid: bid.bidder, lambda person: person.id).process(Pairs(BID, PERSON))
    )
    sellers = bidders.connect(lots).key_by(lambda bidder: bidder[1].id, lambda lot: lot.seller)
    return sellers.process(Pairs(Types.TUPLE([BID, PERSON]), AUCTION)).map(as_row)
