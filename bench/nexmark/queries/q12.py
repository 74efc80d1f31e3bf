"""Query 12: how many bids does somebody make within ten seconds by the clock on the wall?

At the end of the input windows of processing time would be dropped, since their time has not come; the trigger lets
them fire with the last watermark instead, so no bid is lost.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream.window import Trigger, TriggerResult, TumblingProcessingTimeWindows
from nexmark.events import bids
from nexmark.queries.q5 import Count
from nexmark.queries.q11 import WithTimes

END_OF_EVENT_TIME = 2**63 - 1


class ClockOrEnd(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        ctx.register_processing_time_timer(window.max_timestamp())
        ctx.register_event_time_timer(END_OF_EVENT_TIME)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    def on_merge(self, window, ctx):
        raise NotImplementedError("these windows do not merge")

    def clear(self, window, ctx):
        ctx.delete_processing_time_timer(window.max_timestamp())
        ctx.delete_event_time_timer(END_OF_EVENT_TIME)


def query(events):
    by_bidder = bids(events).map(lambda bid: bid.bidder, Types.LONG()).key_by(lambda bidder: bidder)
    windows = by_bidder.window(TumblingProcessingTimeWindows.of(Time.seconds(10))).trigger(ClockOrEnd())
    return windows.aggregate(Count(), WithTimes())
