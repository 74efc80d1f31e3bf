"""Query 22: bids with the directories of their URL."""

import pyarrow as pa
import pyarrow.compute as pc

from nexmark.column_events import bids


def with_directories(batch):
    parts = pc.split_pattern(batch["url"], "/", max_splits=6)
    names = ("auction", "bidder", "price", "channel")
    directories = {f"dir{number}": pc.list_element(parts, number + 2) for number in (1, 2, 3)}
    return pa.record_batch({name: batch[name] for name in names} | directories)


def query(events):
    return bids(events).map_batches(with_directories)
