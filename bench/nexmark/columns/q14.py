"""Query 14: bids of a middling price in another currency, with the time of day and a count of letters."""

import pyarrow as pa
import pyarrow.compute as pc

from nexmark.column_events import bids
from nexmark.columns.q1 import in_euros
from nexmark.queries.q14 import DAY, HIGH, LOW

TIME_OF_HOUR = pa.array([DAY[hour] for hour in range(24)])


def is_middling(batch):
    euros = in_euros(batch)
    return pc.and_(pc.less(LOW, euros), pc.less(euros, HIGH))


def query(events):
    return (
        bids(events)
        .filter(is_middling)
        .select(
            "auction",
            "bidder",
            price=in_euros,
            time_of_day=lambda batch: TIME_OF_HOUR.take(pc.hour(batch["date_time"])),
            date_time="date_time",
            extra="extra",
            letters=lambda batch: pc.count_substring(batch["extra"], "c"),
        )
    )
