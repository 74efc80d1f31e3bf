"""Query 13: each bid with what a file says about its auction."""

import pyarrow as pa
from pyarrow import csv

from flinkbuf.datastream import MapBatchFunction
from nexmark.column_events import bids
from nexmark.queries.q13 import ROWS


class LookUp(MapBatchFunction):
    def open(self, runtime_context):
        path = runtime_context.get_distributed_cache().get_file("side input")
        options = (
            csv.ReadOptions(column_names=["key", "value"]),
            csv.ConvertOptions(column_types={"value": pa.string()}),
        )
        table = csv.read_csv(path, read_options=options[0], convert_options=options[1]).sort_by("key")
        self.values = table["value"].combine_chunks()

    def map_batch(self, batch):
        key = batch["auction"].to_numpy() % ROWS
        return batch.select(["auction", "bidder", "price", "date_time"]).append_column("value", self.values.take(key))


def query(events, side_input):
    events.get_execution_environment().register_cached_file(side_input, "side input")
    return bids(events).map_batches(LookUp())
