"""Query 5: which auctions have most bids in the last ten seconds? Every two seconds; all that share the first place.

Counts of windows are records themselves: those of one window have its end as their key, and are compared when event
time has passed it, since none can follow then.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from flinkbuf.datastream.state import ListStateDescriptor
from flinkbuf.datastream.window import SlidingEventTimeWindows
from nexmark.events import bids


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, count):
        return count + 1

    def get_result(self, count):
        return count

    def merge(self, a, b):
        return a + b


class WithEnd(ProcessWindowFunction):
    def process(self, auction, context, counts):
        for count in counts:
            yield context.window().end, auction, count


class Hottest(KeyedProcessFunction):
    def open(self, runtime_context):
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.hottest = runtime_context.get_list_state(ListStateDescriptor("hottest", pair))

    def process_element(self, value, ctx):
        end, auction, count = value
        hottest = list(self.hottest.get())  # PyFlink gives an iterable
        if not hottest or count > hottest[0][1]:
            self.hottest.update([(auction, count)])
            ctx.timer_service().register_event_time_timer(end)
        elif count == hottest[0][1]:
            self.hottest.add((auction, count))

    def on_timer(self, timestamp, ctx):
        yield from self.hottest.get()
        self.hottest.clear()


def query(events):
    by_auction = bids(events).map(lambda bid: bid.auction, Types.LONG()).key_by(lambda auction: auction, Types.LONG())
    windows = by_auction.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
    counts = windows.aggregate(Count(), WithEnd(), Types.LONG(), two_phase=True)
    return counts.key_by(lambda count: count[0]).process(Hottest())
