"""Query 23: bids with the person who made them and the auctions of that person. Nothing is forgotten."""

from nexmark.column_events import auctions, bids, persons
from nexmark.columns.q3 import FOREVER


def query(events):
    offers = bids(events).drop("auction", "date_time")
    people = persons(events).drop("date_time").rename(extra="person_extra")
    lots = auctions(events).drop("id").rename(extra="lot_extra")
    bidders = offers.key_by("bidder").join(people.key_by("id")).time_to_live(FOREVER)
    sellers = bidders.key_by("bidder").join(lots.key_by("seller")).time_to_live(FOREVER)
    return sellers.select(
        *("bidder", "price", "channel", "url", "extra"),
        *("id", "name", "email_address", "credit_card", "city", "state", "person_extra"),
        *("item_name", "description", "initial_bid", "reserve", "date_time", "expires"),
        *("seller", "category", "lot_extra"),
    )
