"""Query 21: bids with the id of their channel, which the hot ones have by name and others in their URL, if at all."""

import re

from nexmark.events import bids

KNOWN = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
CHANNEL_ID = re.compile(r"(&|^)channel_id=([^&]*)")


def with_channel_id(bid):
    channel_id = KNOWN.get(bid.channel.lower())
    if channel_id is None:
        found = CHANNEL_ID.search(bid.url)
        if found is None:
            return
        channel_id = found[2]
    yield bid.auction, bid.bidder, bid.price, bid.channel, channel_id


def query(events):
    return bids(events).flat_map(with_channel_id)
