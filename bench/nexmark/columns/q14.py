"""Query 14: bids of a middling price in another currency, with the time of day and a count of letters."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexmark.column_events import bids
from nexmark.columns.q1 import in_euros
from nexmark.queries.q14 import DAY, HIGH, LOW

TIME_OF_HOUR = pa.array([DAY[hour] for hour in range(24)])
LETTER = ord("c")


def is_middling(batch):
    return pc.and_(pc.less(LOW, batch["price"]), pc.less(batch["price"], HIGH))


def time_of_day(batch):
    return TIME_OF_HOUR.take(pc.hour(batch["date_time"]))


def letters(batch):
    """Count a letter in each text: where it stands in all of them together, and how often before each begins."""
    texts = batch["extra"]
    _, offsets, data = texts.buffers()
    begins = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    places = np.flatnonzero(np.frombuffer(data, np.uint8) == LETTER) if data is not None else begins[:0]
    return np.diff(np.searchsorted(places, begins))


def query(events):
    return (
        bids(events)
        .select("auction", "bidder", "date_time", "extra", price=in_euros)
        .filter(is_middling)
        .select(
            "auction",
            "bidder",
            "price",
            time_of_day=time_of_day,
            date_time="date_time",
            extra="extra",
            letters=letters,
        )
    )
