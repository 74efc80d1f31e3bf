"""The events as a source: one split for each subtask, which goes on after a restore with the event it was at."""

from itertools import chain

from flinkbuf.datastream.connectors.base import QueueEnumerator, Source, SplitReader
from nexmark.generator import Generator, as_events
from nexmark.kept_events import KeptEvents
from nexmark.rules import splits_of


class NexmarkSource(Source):
    """So many events, in order within each split; splits run side by side in event time.

    Parameters
    ----------
    events : int
        How many in all.
    rate : int, default 10,000
        How many of them happen in a second of event time. It says how fast event time goes, not the clock.
    seed : int, default 1
        Equal seeds give equal events.
    split_count : int, optional
        As many as there are subtasks by default. Which events there are depends on it.
    doubles_bidder_id : bool, default True
        As upstream: see `rules.splits_of`.
    folder : str, optional
        Where `kept_events.keep` has put the events; by default they are made.
    """

    def __init__(self, events, rate=10_000, seed=1, split_count=None, doubles_bidder_id=True, folder=None):
        self.events, self.rate, self.seed = events, rate, seed
        self.split_count, self.doubles_bidder_id, self.folder = split_count, doubles_bidder_id, folder

    def create_enumerator(self, context):
        """Cut the events into splits."""
        count = self.split_count or context.parallelism
        return QueueEnumerator(context, splits_of(self.events, count, self.rate, self.seed, self.doubles_bidder_id))

    def restore_enumerator(self, context, checkpoint):
        """The splits that nobody had."""
        return QueueEnumerator(context, checkpoint)

    def create_reader(self, context):
        """Make events."""
        return NexmarkReader(context, self.folder)


class NexmarkReader(SplitReader):
    """Makes the events of a split, or reads them, a block at a time."""

    def __init__(self, context, folder=None):
        super().__init__(context)
        self._folder = folder

    def open_split(self, split):
        """Return the events from where the split stands."""
        self._generator = Generator(split) if self._folder is None else KeptEvents(split, self._folder)
        self._blocks = [(split.done, split.drawn)]  # where the last two began: events and numbers before them
        events = chain.from_iterable(self._noted_blocks())
        for _ in range(split.skip):
            next(events)
        return events

    def _noted_blocks(self):
        for rows in self._generator:
            yield as_events(rows)
            self._blocks = [self._blocks[-1], (self._generator.done, self._generator.drawn)]

    def split_after(self, split, record_count):
        """Return the rest: the block that the next event is in, and how many before it in that block are over."""
        over = split.done + split.skip + record_count
        done, drawn = next(block for block in reversed(self._blocks) if block[0] <= over)
        return split.at(done, drawn, over - done)
