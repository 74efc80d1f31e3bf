"""Query 12: how many bids does somebody make within ten seconds by the clock on the wall?

At the end of the input windows of processing time would be dropped, since their time has not come; the trigger lets
them fire then, so no bid is lost.
"""

from flinkbuf.common import Time, Types
from flinkbuf.datastream.window import ProcessingTimeTrigger, TumblingProcessingTimeWindows
from nexmark.events import bids
from nexmark.queries.q5 import Count
from nexmark.queries.q11 import WithTimes


def query(events):
    by_bidder = bids(events).map(lambda bid: bid.bidder, Types.LONG()).key_by(lambda bidder: bidder, Types.LONG())
    windows = by_bidder.window(TumblingProcessingTimeWindows.of(Time.seconds(10)))
    at_the_end = ProcessingTimeTrigger.create(fires_at_end=True)
    return windows.trigger(at_the_end).aggregate(Count(), WithTimes(), Types.LONG(), two_phase=True)
