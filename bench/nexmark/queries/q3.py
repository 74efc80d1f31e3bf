"""Query 3: who sells something of category 10 in Oregon, Idaho or California?

An auction may come before its seller does, so both wait in state for each other.
"""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedCoProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor, ValueStateDescriptor
from nexmark.events import auctions, persons

NAME_CITY_STATE = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()])


class SellersOfAuctions(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seller = runtime_context.get_state(ValueStateDescriptor("seller", NAME_CITY_STATE))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, auction, ctx):
        _, auction_id = auction
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(auction_id)
        else:
            yield *seller, auction_id

    def process_element2(self, person, ctx):
        _, *seller = person
        self.seller.update(tuple(seller))
        for auction_id in self.waiting.get():
            yield *seller, auction_id
        self.waiting.clear()


def query(events):
    of_category = auctions(events).filter(lambda auction: auction.category == 10)
    offers = of_category.map(lambda auction: (auction.seller, auction.id))
    nearby = persons(events).filter(lambda person: person.state in ("OR", "ID", "CA"))
    sellers = nearby.map(lambda person: (person.id, person.name, person.city, person.state))
    both = offers.connect(sellers).key_by(lambda offer: offer[0], lambda seller: seller[0])
    return both.process(SellersOfAuctions())
