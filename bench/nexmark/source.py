"""The events as a source: one split for each subtask, which goes on after a restore with the event it was at."""

from flinkbuf.datastream.connectors.base import QueueEnumerator, Source, SplitReader
from nexmark.generator import Generator
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
    """

    def __init__(self, events, rate=10_000, seed=1, split_count=None, doubles_bidder_id=True):
        self.events, self.rate, self.seed = events, rate, seed
        self.split_count, self.doubles_bidder_id = split_count, doubles_bidder_id

    def create_enumerator(self, context):
        """Cut the events into splits."""
        count = self.split_count or context.parallelism
        return QueueEnumerator(context, splits_of(self.events, count, self.rate, self.seed, self.doubles_bidder_id))

    def restore_enumerator(self, context, checkpoint):
        """The splits that nobody had."""
        return QueueEnumerator(context, checkpoint)

    def create_reader(self, context):
        """Make events."""
        return NexmarkReader(context)


class NexmarkReader(SplitReader):
    """Makes the events of a split."""

    def open_split(self, split):
        """Return the events from where the split stands."""
        self._generator = Generator(split)
        return self._generator

    def split_after(self, split, record_count):
        """Return the rest: no event is made before it is wanted, so the generator stands behind the last one."""
        return split.at(self._generator.done, self._generator.drawn)
