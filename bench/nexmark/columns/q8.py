"""Query 8: who has registered and begun to sell within the same ten seconds?"""

import pyarrow.compute as pc

from flinkbuf.common import Time
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.column_events import auctions, persons


def query(events):
    registered = persons(events).select("id", "name", starttime=pc.floor_temporal(pc.field("date_time"), 10, "second"))
    sellers = auctions(events).select("seller")
    both = registered.key_by("id").join(sellers.key_by("seller"), how="semi")
    return both.window(TumblingEventTimeWindows.of(Time.seconds(10)))
