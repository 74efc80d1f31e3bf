"""The events as column batches, and the column streams of each kind.

The source gives blocks of events that follow each other; of each block its persons, auctions and bids are a batch each,
so what reads one kind does not touch the others. All fields are drawn in any case; the texts of bids, which are those
of all bids and which Flink's rows refer to, are copied for who reads bids.
"""

import pyarrow as pa

from flinkbuf._core.value.own_value import declare_fixed
from flinkbuf.common import WatermarkStrategy
from flinkbuf.datastream.connectors.base import SplitReader
from nexmark import events
from nexmark.generator import Generator
from nexmark.source import NexmarkSource

TIMES = ("date_time", "expires")


def schema_of(kind):
    """Return the columns of one kind of events: its fields, with its times as timestamps."""
    types = {int: pa.int64(), str: pa.string()}
    return pa.schema(
        [(name, pa.timestamp("ms") if name in TIMES else types[of]) for name, of in kind.__annotations__.items()]
    )


PERSON, AUCTION, BID = schema_of(events.Person), schema_of(events.Auction), schema_of(events.Bid)


class Block:
    """Events that follow each other: the batches of persons, auctions and bids, in this order.

    Parameters
    ----------
    columns : sequence of Columns
        Of the three, as the generator gives them.
    """

    def __init__(self, columns):
        self._columns = columns

    def __getitem__(self, kind):
        return self._columns[kind].batch()


declare_fixed(Block)


class NexmarkColumnSource(NexmarkSource):
    """The events of `NexmarkSource` in blocks.

    Parameters
    ----------
    events : int
        How many in all.
    block : int, default 32,768
        How many in a block.
    **options
        Those of `NexmarkSource`.
    """

    def __init__(self, events, block=32_768, **options):
        super().__init__(events, **options)
        self.block = block

    def create_reader(self, context):
        """Make blocks."""
        return NexmarkColumnReader(context, self.block)


class NexmarkColumnReader(SplitReader):
    """Makes the events of a split, block by block."""

    def __init__(self, context, block):
        super().__init__(context)
        self._block = block

    def open_split(self, split):
        """Return the blocks from where the split stands."""
        self._generator = Generator(split)
        return iter(self._next_block, None)

    def _next_block(self):
        columns = self._generator.next_columns(self._block, PERSON, AUCTION, BID)
        return None if columns is None else Block(columns)

    def split_after(self, split, record_count):
        """Return the rest: no block is made before it is wanted, so the generator stands behind the last one."""
        return split.at(self._generator.done, self._generator.drawn)


def persons(blocks):
    """Return the persons, with their times."""
    return _of_kind(blocks, 0, PERSON).name("persons")


def auctions(blocks):
    """Return the auctions, with their times."""
    return _of_kind(blocks, 1, AUCTION).name("auctions")


def bids(blocks):
    """Return the bids, with their times."""
    return _of_kind(blocks, 2, BID).name("bids")


def _of_kind(blocks, kind, schema):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(events.LATENESS)
    batches = blocks.map(lambda block: block[kind]).as_columns(schema)
    return batches.assign_timestamps_and_watermarks("date_time", strategy)
