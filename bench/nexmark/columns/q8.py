"""Query 8: who has registered and begun to sell within the same ten seconds?"""

import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.common import Time
from flinkbuf.datastream.columns import count, first, window_start
from flinkbuf.datastream.window import TumblingEventTimeWindows
from nexmark.column_events import auctions, persons


def query(events):
    registered = persons(events).select("id", "name", lot=pc.scalar(None).cast(pa.int64()))
    sellers = auctions(events).select(id="seller", name=pc.scalar(None).cast(pa.string()), lot="id")
    windows = registered.union(sellers).key_by("id").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    both = windows.aggregate(name=first("name"), lots=count("lot"), starttime=window_start())
    return both.filter(pc.field("name").is_valid() & (pc.field("lots") > 0)).select("id", "name", "starttime")
