"""The events as a source: one split for each subtask, which goes on after a restore with the event it was at."""

from flinkbuf.datastream.connectors.base import Source, SplitEnumerator, SplitReader
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
        return EnumeratorByNumber(context, splits_of(self.events, count, self.rate, self.seed, self.doubles_bidder_id))

    def restore_enumerator(self, context, checkpoint):
        """The splits that nobody had."""
        return EnumeratorByNumber(context, checkpoint)

    def create_reader(self, context):
        """Make events."""
        return NexmarkReader(context)


class EnumeratorByNumber(SplitEnumerator):
    """Gives each subtask the splits of its number.

    A subtask that is done before another has started must not take that one's split, too: all splits begin at the same
    event time, which would be over for the second one, so its events would be late.
    """

    def __init__(self, context, splits):
        self._context, self._splits = context, list(splits)

    def handle_split_request(self, subtask_index, host):
        """Give the next split of this subtask, or say that there is none."""
        count = self._context.parallelism
        split = next((split for split in self._splits if split.index % count == subtask_index), None)
        if split is None:
            self._context.signal_no_more_splits(subtask_index)
        else:
            self._splits.remove(split)
            self._context.assign_split(split, subtask_index)

    def add_splits_back(self, splits, subtask_index):
        """Give these splits out next."""
        self._splits[:0] = splits

    def snapshot_state(self, checkpoint_id):
        """Return the splits not assigned yet."""
        return list(self._splits)


class NexmarkReader(SplitReader):
    """Makes the events of a split."""

    def open_split(self, split):
        """Return the events from where the split stands."""
        self._generator = Generator(split)
        return self._generator

    def split_after(self, split, record_count):
        """Return the rest: no event is made before it is wanted, so the generator stands behind the last one."""
        return split.at(self._generator.done, self._generator.drawn)
