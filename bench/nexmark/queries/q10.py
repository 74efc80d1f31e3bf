"""Query 10: all bids into CSV files, in a directory for each minute in which they were made."""

from datetime import datetime, timezone
from functools import lru_cache

from flinkbuf.common import Encoder, Types
from flinkbuf.datastream.connectors.file_system import BucketAssigner, FileSink
from nexmark.events import bids


@lru_cache
def directory_of(minute):
    return f"{datetime.fromtimestamp(minute * 60, timezone.utc):dt=%Y-%m-%d/hm=%H:%M}"


class ByMinute(BucketAssigner):
    def get_bucket_id(self, element, context):
        return directory_of(context.timestamp() // 60_000)


def as_csv(bid):
    quoted = bid.extra.replace('"', '""')
    return f'{bid.auction},{bid.bidder},{bid.price},{bid.date_time},"{quoted}"'


def query(events, folder):
    encoder = Encoder.simple_string_encoder()
    sink = FileSink.for_row_format(folder, encoder).with_bucket_assigner(ByMinute()).build()
    return bids(events).map(as_csv, Types.STRING()).sink_to(sink)
