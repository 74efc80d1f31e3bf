"""Query 6: the average price of each seller's last ten auctions that found a buyer, after each of them.

Winning bids of one seller come from several subtasks, so they wait until event time has passed them, which is when all
of them are there and can be put in order.
"""

from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction
from flinkbuf.datastream.state import ListStateDescriptor
from nexmark.queries import q9

LONG = Types.LONG()


class LastTen(KeyedProcessFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.TUPLE([LONG] * 3)))
        self.prices = runtime_context.get_list_state(ListStateDescriptor("prices", LONG))

    def process_element(self, won, ctx):
        _, expires, auction, price = won
        self.waiting.add((expires, auction, price))
        ctx.timer_service().register_event_time_timer(expires)

    def on_timer(self, timestamp, ctx):
        waiting, prices = self.waiting.get(), self.prices.get()
        for expires, _, price in sorted(waiting):
            if expires == timestamp:
                prices = [*prices[-9:], price]
                yield ctx.get_current_key(), sum(prices) // len(prices)
        self.waiting.update([won for won in waiting if won[0] > timestamp])
        self.prices.update(prices)


def query(events):
    # Of the auction: id first, expires seventh, seller eighth; the price is the third field of the bid behind it.
    won = q9.query(events).map(lambda row: (row[7], row[6], row[0], row[12]))
    return won.key_by(lambda won: won[0]).process(LastTen())
