"""Query 21: bids with the id of their channel, which the hot ones have by name and others in their URL, if at all."""

import pyarrow as pa
import pyarrow.compute as pc

from nexmark.column_events import bids
from nexmark.queries.q21 import KNOWN

NAMES, IDS = pa.array(KNOWN.keys()), pa.array(KNOWN.values())


def channel_id(batch):
    known = IDS.take(pc.index_in(pc.utf8_lower(batch["channel"]), NAMES))
    others = pc.if_else(pc.is_valid(known), None, batch["url"])
    return pc.coalesce(known, pc.struct_field(pc.extract_regex(others, "(?:&|^)channel_id=(?P<id>[^&]*)"), "id"))


def query(events):
    found = bids(events).select("auction", "bidder", "price", "channel", channel_id=channel_id)
    return found.filter(pc.field("channel_id").is_valid())
