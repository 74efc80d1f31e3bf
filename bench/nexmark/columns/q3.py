"""Query 3: who sells something of category 10 in Oregon, Idaho or California?"""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.common import Time
from nexmark.column_events import auctions, persons

FOREVER = Time.days(10_000)
STATES = pa.array(["OR", "ID", "CA"])


def query(events):
    of_category = auctions(events).filter(pc.field("category") == 10).select("seller", auction="id")
    nearby = persons(events).filter(pc.field("state").isin(STATES)).select("id", "name", "city", "state")
    sellers = nearby.key_by("id").join(of_category.key_by("seller")).time_to_live(FOREVER)
    return sellers.select("name", "city", "state", "auction")
