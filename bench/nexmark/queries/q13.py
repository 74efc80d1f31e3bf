"""Query 13: each bid with what a file says about its auction.

The file is registered with the environment by its name, which brings it to every machine.
"""

import csv

from flinkbuf.datastream import MapFunction
from nexmark.events import bids

ROWS = 10_000


class LookUp(MapFunction):
    def open(self, runtime_context):
        path = runtime_context.get_distributed_cache().get_file("side input")
        with open(path, newline="") as file:
            self.values = {int(key): value for key, value in csv.reader(file)}

    def map(self, bid):
        return bid.auction, bid.bidder, bid.price, bid.date_time, self.values[bid.auction % ROWS]


def query(events, side_input):
    events.get_execution_environment().register_cached_file(side_input, "side input")
    return bids(events).map(LookUp())
