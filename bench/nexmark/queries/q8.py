"""Query 8: who has registered and begun to sell within the same ten seconds?"""

from flinkbuf.common import Time
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.events import auctions, persons

WINDOW_MS = 10_000


def new_sellers(persons, sellers):
    """Give each person for whom there is an auction, with the beginning of the window."""
    if sellers:
        for person_id, name, date_time in persons:
            yield person_id, name, date_time // WINDOW_MS * WINDOW_MS


def query(events):
    registered = persons(events).map(lambda person: (person.id, person.name, person.date_time))
    sellers = auctions(events).map(lambda auction: auction.seller)
    both = registered.co_group(sellers).where(lambda person: person[0]).equal_to(lambda seller: seller)
    return both.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).apply(new_sellers)
